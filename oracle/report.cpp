#include "oracle/report.h"

#include <fmt/format.h>

namespace tilescope {

std::int64_t Report::compared() const {
    std::int64_t elements = 0;
    for (const StageReport& stage : stages) elements += stage.tally.compared;
    return elements;
}

std::string place_of(const Problem& problem, Stage stage, const Element& element) {
    const StageInfo& info = stage_info(stage);
    std::string place = fmt::format("batch {}, head {}", element.tile.batch, element.tile.head);
    if (info.row_axis == Axis::key) {
        place += fmt::format(", q block {}, key {}", element.tile.q_block, element.row);
    } else {
        place += fmt::format(", row {}", element.row);
    }
    if (info.col_axis == Axis::key) place += fmt::format(", key {}", element.col);
    if (info.col_axis == Axis::feature) place += fmt::format(", column {}", element.col);
    if (info.per_kv_tile) place += fmt::format(", KV tile {}", element.tile.kv_tile);
    const std::int64_t block = info.row_axis == Axis::key ? problem.block_n : problem.block_m;
    return place + fmt::format(" (row {} of its tile)", element.row % block);
}

std::string values_of(const Element& element) {
    switch (element.finding) {
        case Finding::unwritten:
            return "no thread wrote it";
        case Finding::conflicting:
            return "written again with different values, somewhere in this tile";
        default:
            return fmt::format("got {:.9g}, expected {:.9g} +- {:.3g}", element.got, element.expected,
                               element.tolerance);
    }
}

std::string verdict_line(const Report& report) {
    const std::string against = report.other.empty() ? "the float64 oracle" : report.other;
    if (!report.guilty) {
        int stages = 0;
        for (const StageReport& stage : report.stages) stages += stage.tally.compared > 0;
        return fmt::format("match: {} elements of {} stages agree with {}", report.compared(), stages,
                           against);
    }
    const Element& first = *report.first_divergence;
    return fmt::format("diverged: {} is the first wrong stage, at {}: {}", stage_info(*report.guilty).name,
                       place_of(report.problem, *report.guilty, first), values_of(first));
}

}  // namespace tilescope
