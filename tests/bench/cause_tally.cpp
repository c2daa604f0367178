#include "tests/bench/cause_tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dump/schema.h"

namespace tilescope::bench {

namespace {

bool contains(std::span<const std::string> names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

std::string joined(std::span<const std::string> names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : " = ") + name;
    return text;
}

std::string percent(const Rate& rate) {
    return rate.of == 0 ? "-" : fmt::format("{:.1f}", 100 * rate.share());
}

nlohmann::json json_of(const Rate& rate) {
    return {{"of", rate.of}, {"right", rate.right}};
}

}  // namespace

bool CauseCase::stage_right() const {
    return std::ranges::any_of(stages, [&](Stage stage) { return stage_info(stage).name == guilty; });
}

bool CauseCase::cause_right() const {
    return !cut_off &&
           std::ranges::any_of(causes, [&](const std::string& cause) { return contains(named, cause); });
}

std::string CauseCase::answer() const {
    if (!error.empty()) return "(error)";
    if (!diverged) return "(matches)";
    if (cut_off) return "(cut off)";
    for (const std::string& cause : causes) {
        if (contains(named, cause)) return cause;
    }
    return named.empty() ? "(none)" : joined(named);
}

void CauseTally::add(CauseCase result) {
    if (!rows_.contains(result.plant)) order_.push_back(result.plant);
    Row& row = rows_[result.plant];
    ++row.cases;
    if (!result.changed) return;
    ++row.changed;
    row.diverged += result.diverged ? 1 : 0;
    row.cut_off += result.cut_off ? 1 : 0;
    row.stage.of += 1;
    row.stage.right += result.stage_right() ? 1 : 0;
    if (!result.causes.empty()) {
        row.cause.of += 1;
        row.cause.right += result.cause_right() ? 1 : 0;
        row.tied += result.cause_right() && result.named.size() > 1 ? 1 : 0;
        ++row.answers[result.answer()];
    }
    if (result.is_missed()) missed_.push_back(std::move(result));
}

CauseTally::Row CauseTally::total() const {
    Row sum;
    for (const auto& [name, row] : rows_) {
        sum.cases += row.cases;
        sum.changed += row.changed;
        sum.diverged += row.diverged;
        sum.stage.of += row.stage.of;
        sum.stage.right += row.stage.right;
        sum.cause.of += row.cause.of;
        sum.cause.right += row.cause.right;
        sum.tied += row.tied;
        sum.cut_off += row.cut_off;
    }
    return sum;
}

void CauseTally::print(int misses) const {
    fmt::print("\n{}\n", title_);
    fmt::print("{:<32}{:>7}{:>9}{:>9}{:>9}{:>9}{:>7}{:>9}\n", "fault", "cases", "changed", "diverge",
               "stage %", "cause %", "tied", "cut off");
    const auto print_row = [&](const std::string& name, const Row& row) {
        fmt::print("{:<32}{:>7}{:>9}{:>9}{:>9}{:>9}{:>7}{:>9}\n", name, row.cases, row.changed, row.diverged,
                   percent(row.stage), percent(row.cause), row.tied, row.cut_off);
    };
    for (const std::string& name : order_) print_row(name, rows_.at(name));
    print_row("all", total());
    fmt::print("\n{:<32}named, and how often\n", "fault");
    for (const std::string& name : order_) {
        std::string text;
        for (const auto& [answer, count] : rows_.at(name).answers)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", answer, count);
        fmt::print("{:<32}{}\n", name, text);
    }
    print_misses(misses);
}

void CauseTally::print_misses(int misses) const {
    std::map<std::string, int> shown;
    for (const CauseCase& miss : missed_) {
        if (shown[miss.plant]++ >= misses) continue;
        std::string stages;
        for (const Stage stage : miss.stages)
            stages += (stages.empty() ? "" : "|") + std::string(stage_info(stage).name);
        fmt::print("missed: {} on {}: guilty {} (right: {}), named {}{}{}{}\n", miss.plant, miss.where,
                   miss.guilty.empty() ? "none" : miss.guilty, stages, miss.answer(),
                   miss.told.empty() ? "" : ": " + miss.told,
                   miss.later.empty() ? "" : "; after it " + joined(miss.later),
                   miss.error.empty() ? "" : "; " + miss.error);
    }
}

std::string CauseTally::to_json() const {
    nlohmann::json json = {{"title", title_}, {"faults", nlohmann::json::array()}};
    const auto add = [](const std::string& name, const Row& row) -> nlohmann::json {
        return {{"fault", name},
                {"cases", row.cases},
                {"changed", row.changed},
                {"diverged", row.diverged},
                {"stage", json_of(row.stage)},
                {"cause", json_of(row.cause)},
                {"tied", row.tied},
                {"cut_off", row.cut_off},
                {"named", row.answers}};
    };
    for (const std::string& name : order_) json["faults"].push_back(add(name, rows_.at(name)));
    json["all"] = add("all", total());
    return json.dump();
}

}  // namespace tilescope::bench
