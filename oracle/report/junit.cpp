#include "oracle/report/junit.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "dump/file/saved_name.h"
#include "dump/schema/text.h"
#include "oracle/report/markup.h"

namespace tilescope {

namespace {

std::string attribute(std::string_view name, std::string_view value) {
    return fmt::format(" {}=\"{}\"", name, markup_escaped(one_line(value)));
}

/// Jenkins' strict readers refuse properties of a test case; what it printed all of them take.
std::string facts_of(const JudgedRecording& judged) {
    std::string lines;
    const bool is_renamed = path_in_every_run(judged.recording) != judged.recording;
    for (const auto& [name, value] :
         {std::pair<std::string_view, std::string_view>{"verdict", to_string(judged.came)},
          {"recording", is_renamed ? std::string_view(judged.recording) : ""},
          {"stage", judged.stage},
          {"place", judged.place},
          {"cause", judged.cause},
          {"compared_with", judged.other}})
        if (!value.empty()) lines += fmt::format("{}: {}\n", name, markup_escaped(one_line(value)));
    return fmt::format("<system-out>{}</system-out>\n", lines);
}

std::string element_of(std::string_view name, const JudgedRecording& judged, const std::string& text) {
    const std::string_view type = judged.came == Came::diverged ? std::string_view(judged.cause) : "unjudged";
    return fmt::format("<{0}{1}{2}>{3}</{0}>\n", name, attribute("message", judged.headline),
                       attribute("type", type), markup_escaped(text));
}

std::string result_of(const JudgedRecording& judged, const std::string& text) {
    switch (judged.came) {
        case Came::match:
            return "";
        case Came::known:
            return fmt::format("<skipped{}/>\n", attribute("message", "known: " + judged.reason));
        case Came::diverged:
            return element_of("failure", judged, text);
        case Came::unjudged:
            return element_of("error", judged, text);
    }
    return "";
}

}  // namespace

std::string junit_head(std::span<const JudgedRecording> all) {
    const JudgedCounts counts = count_judged(all);
    const std::string numbers = fmt::format(R"(tests="{}" failures="{}" errors="{}" time="{:.3f}")",
                                            all.size(), counts.diverged, counts.unjudged, counts.seconds);
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n"
        "<testsuite name=\"tile-diff\" {0} skipped=\"{1}\">\n",
        numbers, counts.known);
}

std::string junit_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits) {
    // CI servers know a case by its name from one run to the next.
    const std::filesystem::path path(path_in_every_run(judged.recording));
    const std::string folder = path.parent_path().string();
    return fmt::format("<testcase{}{} time=\"{:.3f}\">\n{}{}</testcase>\n",
                       attribute("classname", folder.empty() ? "recordings" : folder),
                       attribute("name", path.filename().string()), judged.seconds,
                       result_of(judged, report_format("text")->alone(outcome, exhibits)), facts_of(judged));
}

std::string junit_tail(std::span<const JudgedRecording>) {
    return "</testsuite>\n</testsuites>\n";
}

}  // namespace tilescope
