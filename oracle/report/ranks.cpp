#include "oracle/report/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "dump/schema/declarations.h"
#include "dump/schema/text.h"
#include "oracle/ranks/rank_grid.h"
#include "oracle/ranks/run_of_ranks.h"
#include "oracle/report/text.h"

namespace tilescope {

namespace {

using RunJson = nlohmann::ordered_json;

/// Beyond so many ranks or steps a map is no picture any more.
constexpr std::int64_t most_of_map = 16;
constexpr std::size_t most_faults = 8;

std::string call_text(const RankReport& report) {
    const Problem& p = report.whole;
    return fmt::format(
        "{}: {} ranks, {} recordings; batch {}, heads {} of {} KV heads, seqlen_q {}, seqlen_kv {}, head_dim "
        "{}{}\n",
        one_line(report.recording), report.ranks, report.parts.size(), p.batch, p.heads, p.heads_kv,
        p.seqlen_q, p.seqlen_kv, p.head_dim, p.mask == Mask::causal ? ", causal" : "");
}

/// A row for each rank and a column for each step; "" where there are too many.
std::string map_text(const RankReport& report) {
    const RankGrid grid = grid_of(report);
    if (grid.ranks() > most_of_map || std::int64_t(grid.steps().size()) > most_of_map) return "";
    std::size_t width = 8;
    for (std::size_t i = 0; i < report.parts.size(); ++i)
        width = std::max(width, word_of(report, i).size() + 1);
    const auto trimmed = [](std::string line) {
        while (!line.empty() && line.back() == ' ') line.pop_back();
        return line + "\n";
    };
    std::string line = fmt::format("{:<9}", "");
    for (const std::int64_t step : grid.steps())
        line += fmt::format("{:<{}}", fmt::format("step {}", step), width);
    if (grid.has_final()) line += "at the end";
    std::string text = "\n" + trimmed(line);
    for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
        line = fmt::format("{:<9}", fmt::format("rank {}", rank));
        for (std::int64_t column = 0; column < grid.columns(); ++column) {
            const std::optional<std::size_t> part = grid.part_at(rank, column);
            line += fmt::format("{:<{}}", part ? word_of(report, *part) : "", width);
        }
        text += trimmed(line);
    }
    return text;
}

std::string fault_text(const RankReport& report, const RankFault& fault) {
    const RankPart& part = report.parts[fault.part];
    std::string text = fmt::format("{}, {}", fault.stage, text_of_part(part.shard));
    if (!fault.place.empty()) text += ", " + fault.place;
    text += fmt::format("  ({})\n", one_line(part.recording));
    if (!fault.cause.empty()) {
        text += fmt::format("  cause: {}: {}\n", fault.cause, fault.says);
    } else {
        text += fmt::format("  cause: {}{}{}\n",
                            fault.searched ? "none is known that explains it" : "not searched",
                            fault.says.empty() ? "" : "; ", fault.says);
    }
    if (!fault.look_at.empty()) text += fmt::format("  look at: {}\n", fault.look_at);
    return text;
}

/// Of the part that is wrong first, where it is wrong by its own tiles.
std::string own_report(const RankReport& report) {
    if (report.faults.empty()) return "";
    const RankFault& first = report.faults.front();
    const RankPart& part = report.parts[first.part];
    const bool is_own = part.report && part.report->guilty &&
                        stage_info(part.report->problem, *part.report->guilty).name == first.stage;
    return is_own ? "\n" + to_text(*part.report) : "";
}

RunJson stages_json(const RankPart& part) {
    RunJson stages = RunJson::array();
    for (const PartStage& stage : part.stages)
        stages.push_back({{"name", stage.name},
                          {"arrived", stage.arrived},
                          {"compared", stage.tally.compared},
                          {"outside", stage.tally.outside}});
    return stages;
}

RunJson parts_json(const RankReport& report) {
    RunJson parts = RunJson::array();
    for (std::size_t i = 0; i < report.parts.size(); ++i) {
        const RankPart& part = report.parts[i];
        parts.push_back({{"recording", part.recording},
                         {"shard", declarations::name_of(part.shard.kind)},
                         {"rank", part.shard.rank},
                         {"step", part.shard.step},
                         {"first_wrong", word_of(report, i)},
                         {"stages", stages_json(part)},
                         {"unjudged", part.unjudged.empty() ? RunJson() : RunJson(part.unjudged)},
                         {"report", part.report ? RunJson::parse(to_json(*part.report)) : RunJson()}});
    }
    return parts;
}

RunJson faults_json(const RankReport& report) {
    RunJson faults = RunJson::array();
    for (const RankFault& fault : report.faults) {
        const Shard& shard = report.parts[fault.part].shard;
        faults.push_back({{"rank", shard.rank},
                          {"step", shard.step},
                          {"shard", declarations::name_of(shard.kind)},
                          {"stage", fault.stage},
                          {"place", fault.place},
                          {"values", fault.values},
                          {"cause", fault.cause.empty() ? RunJson() : RunJson(fault.cause)},
                          {"says", fault.says},
                          {"look_at", fault.look_at},
                          {"recording", report.parts[fault.part].recording}});
    }
    return faults;
}

}  // namespace

std::string to_text(const RankReport& report) {
    std::string text = call_text(report) + map_text(report);
    if (!report.faults.empty()) text += "\n";
    for (std::size_t i = 0; i < std::min(report.faults.size(), most_faults); ++i)
        text += (i == 0 ? "FIRST WRONG  " : "wrong too    ") + fault_text(report, report.faults[i]);
    if (report.faults.size() > most_faults)
        text += fmt::format("and {} more\n", report.faults.size() - most_faults);
    text += own_report(report);
    if (!report.missing.empty()) text += "\n";
    for (std::size_t i = 0; i < std::min(report.missing.size(), most_faults); ++i)
        text += "not judged: " + report.missing[i] + "\n";
    if (report.missing.size() > most_faults)
        text += fmt::format("not judged: {} more\n", report.missing.size() - most_faults);
    return text + "\n" + verdict_line(report) + "\n";
}

std::string to_json(const RankReport& report) {
    const char* const verdict = report.diverges()         ? "diverged"
                                : report.unjudged.empty() ? "match"
                                                          : "unjudged";
    const RunJson json = {{"report_version", report_version},
                          {"verdict", verdict},
                          {"recording", report.recording},
                          {"run", report.run},
                          {"ranks", report.ranks},
                          {"faults", faults_json(report)},
                          {"parts", parts_json(report)},
                          {"missing", report.missing},
                          {"summary", verdict_line(report)}};
    return json.dump(2, ' ', true, RunJson::error_handler_t::replace) + "\n";
}

}  // namespace tilescope
