#include "oracle/report/sarif.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <variant>
#include <vector>

#include "dump/schema/text.h"

namespace tilescope {

namespace {

using Sarif = nlohmann::ordered_json;

/// The first hook that recorded the first wrong stage; nullopt where the recording does not say.
std::optional<SourceLine> hook_of(const Outcome& outcome) {
    const auto* report = std::get_if<Report>(&outcome);
    if (const auto* const ranks = std::get_if<RankReport>(&outcome); ranks != nullptr && ranks->diverges()) {
        const std::optional<Report>& of_part = ranks->parts[ranks->faults.front().part].report;
        if (of_part) report = &*of_part;
    }
    if (report == nullptr || !report->guilty) return std::nullopt;
    const std::vector<SourceLine>& hooks = report->stage(*report->guilty).hooks;
    return hooks.empty() ? std::nullopt : std::optional(hooks.front());
}

std::string as_sarif(const Sarif& json) {
    return json.dump(1, ' ', true, Sarif::error_handler_t::replace);
}

/// RFC 3986: what is no unreserved character and no separator of a path is written as percent and two digits.
std::string uri_of(std::string_view path) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    constexpr std::string_view plain = "-._~/";
    std::string uri;
    for (const char c : path) {
        const auto byte = static_cast<unsigned char>(c);
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || plain.find(c) != std::string_view::npos) {
            uri += c;
        } else {
            uri += {'%', digits[byte >> 4], digits[byte & 15]};
        }
    }
    return path.starts_with('/') ? "file://" + uri : uri;
}

Sarif location_of(const JudgedRecording& judged, const Outcome& outcome) {
    const std::optional<SourceLine> hook = hook_of(outcome);
    Sarif place = {{"artifactLocation", {{"uri", uri_of(hook ? hook->file : judged.recording)}}}};
    if (hook) place["region"] = {{"startLine", hook->line}};
    return {{"physicalLocation", std::move(place)}};
}

}  // namespace

std::string sarif_head(std::span<const JudgedRecording>) {
    return R"({"version": "2.1.0",
"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
"runs": [{
"tool": {"driver": {"name": "tile-diff", "rules": [{"id": "diverged",
 "shortDescription": {"text": "A stage of the kernel is further off than rounding can explain."}}]}},
"results": [
)";
}

std::string sarif_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits&) {
    if (judged.came != Came::diverged && judged.came != Came::known) return "";
    Sarif result = {
        {"ruleId", "diverged"},
        {"level", "error"},
        {"message", {{"text", one_line(judged.recording) + ": " + judged.headline}}},
        {"locations", {location_of(judged, outcome)}},
        {"properties", {{"stage", judged.stage}, {"place", judged.place}, {"cause", judged.cause}}}};
    if (judged.came == Came::known)
        result["suppressions"] = {{{"kind", "external"}, {"justification", judged.reason}}};
    return as_sarif(result);
}

std::string sarif_tail(std::span<const JudgedRecording> all) {
    Sarif notifications = Sarif::array();
    for (const JudgedRecording& judged : all) {
        if (judged.came == Came::unjudged)
            notifications.push_back({{"level", "error"}, {"message", {{"text", judged.reason}}}});
    }
    const Sarif invocation = {{"executionSuccessful", notifications.empty()},
                              {"exitCode", exit_code_of(all)},
                              {"toolExecutionNotifications", notifications}};
    return "\n],\n\"invocations\": [" + as_sarif(invocation) + "]}]}\n";
}

}  // namespace tilescope
