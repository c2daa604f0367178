#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "dump/watch/rules.h"
#include "kernels/run/report_json.h"
#include "kernels/run/reports.h"
#include "kernels/run/watch_runs.h"

namespace tilescope {

namespace {

using nlohmann::ordered_json;

/// The findings of one rule in one stage.
struct RuleRow {
    const WatchFinding* first;
    std::int64_t blocks = 0;
    std::int64_t tiles = 0;
};

/// In the order of the findings.
std::vector<RuleRow> rows_of(const WatchReport& report) {
    std::vector<RuleRow> rows;
    for (const WatchFinding& finding : report.findings) {
        const auto same = [&](const RuleRow& row) {
            return row.first->rule == finding.rule && row.first->stage == finding.stage;
        };
        auto row = std::ranges::find_if(rows, same);
        if (row == rows.end()) row = rows.insert(rows.end(), {&finding});
        ++row->blocks;
        row->tiles += finding.tiles;
    }
    return rows;
}

std::string dump_text(const WatchResult& result, const std::string& path) {
    std::string text;
    const SuspectSelection& suspects = result.suspects;
    if (suspects.left_out > 0) {
        text += fmt::format(
            "left out: {} of {} findings do not fit into {} bytes; the first of them takes {}, raise "
            "--budget\n",
            suspects.left_out, result.report.findings.size(), result.budget, suspects.least_bytes);
    }
    if (!path.empty()) {
        text += fmt::format("recorded: --select {} ({} bytes)\nnext: tile-diff {}\n",
                            to_string(suspects.selection), suspects.bytes, path);
    }
    return text;
}

/// As text where JSON has no number for it.
ordered_json number_json(double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json(fmt::format("{}", value));
}

ordered_json finding_json(const WatchFinding& finding) {
    return {{"stage", stage_info(finding.stage).name},
            {"batch", finding.tile.batch},
            {"head", finding.tile.head},
            {"q_block", finding.tile.q_block},
            {"kv_tile", finding.tile.kv_tile},
            {"what", finding.breach.what},
            {"got", number_json(finding.breach.got)},
            {"relation", finding.breach.relation},
            {"limit", number_json(finding.breach.limit)}};
}

}  // namespace

std::string to_text(const RunRequest& request, const WatchResult& result, const std::string& path) {
    const WatchReport& report = result.report;
    std::string text = fmt::format("{} on {}: statistics of {} tiles, {} launches\n", describe(request),
                                   result.device, report.tiles, watch_launches);
    if (report.without_room > 0) {
        text += fmt::format("not watched: {} tiles had no room, raise --sink-bytes\n", report.without_room);
    }
    const std::vector<RuleRow> rows = rows_of(report);
    if (rows.empty()) {
        return text +
               fmt::format("nothing looks wrong: {} rules hold, and both launches have the same bits\n",
                           all_watch_rules().size());
    }
    text += "rule              stage   blocks    tiles  first\n";
    for (const RuleRow& row : rows) {
        text += fmt::format("{:<17} {:<5} {:>8} {:>8}  {}\n", row.first->rule->name,
                            stage_info(row.first->stage).name, row.blocks, row.tiles, to_string(*row.first));
    }
    text += dump_text(result, path);
    return text + fmt::format("looks wrong: {}\n", to_string(report.findings.front()));
}

std::string to_json(const RunRequest& request, const WatchResult& result, const std::string& path) {
    const WatchReport& report = result.report;
    ordered_json json =
        request_json(request, report.findings.empty() ? "nothing_looks_wrong" : "looks_wrong");
    json["device"] = result.device;
    json["launches"] = watch_launches;
    json["tiles"] = report.tiles;
    json["tiles_without_room"] = report.without_room;
    json["rules"] = ordered_json::array();
    for (const RuleRow& row : rows_of(report)) {
        json["rules"].push_back({{"rule", row.first->rule->name},
                                 {"sentence", row.first->rule->sentence},
                                 {"severity", row.first->rule->severity},
                                 {"blocks", row.blocks},
                                 {"tiles", row.tiles},
                                 {"first", finding_json(*row.first)}});
    }
    json["budget"] = result.budget;
    json["findings"] = report.findings.size();
    json["findings_dumped"] = result.suspects.dumped;
    json["findings_left_out"] = result.suspects.left_out;
    json["bytes"] = result.suspects.bytes;
    json["selection"] = nullptr;
    if (result.dump) json["selection"] = to_string(result.suspects.selection);
    json["file"] = nullptr;
    if (!path.empty()) json["file"] = path;
    return lines_of(json);
}

}  // namespace tilescope
