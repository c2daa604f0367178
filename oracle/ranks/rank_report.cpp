#include "oracle/ranks/rank_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "oracle/ranks/rank_grid.h"
#include "oracle/ranks/run_of_ranks.h"

namespace tilescope {

std::int64_t RankReport::compared() const {
    std::int64_t count = 0;
    for (const RankPart& part : parts) {
        for (const PartStage& stage : part.stages) count += stage.tally.compared;
        if (part.report) count += part.report->compared();
    }
    return count;
}

std::string word_of(const RankReport& report, std::size_t part) {
    switch (state_of(report, part)) {
        case PartState::first_wrong:
        case PartState::wrong_too:
            return std::ranges::find(report.faults, part, &RankFault::part)->stage;
        case PartState::inherited:
            return "inherited";
        case PartState::right:
            return "ok";
        case PartState::not_judged:
            break;
    }
    return report.parts[part].shard.kind == ShardKind::owned ? "" : "-";
}

std::string verdict_line(const RankReport& report) {
    if (report.faults.empty()) {
        if (!report.unjudged.empty()) return "unjudged: " + report.unjudged;
        return fmt::format("match: {} elements of {} recordings of {} ranks agree with the float64 oracle",
                           report.compared(), report.parts.size(), report.ranks);
    }
    const RankFault& first = report.faults.front();
    const Shard& shard = report.parts[first.part].shard;
    std::string line =
        fmt::format("diverged: {} is the first wrong stage, at {}", first.stage, text_of_part(shard));
    if (!first.place.empty()) line += ", " + first.place;
    if (!first.values.empty()) line += ": " + first.values;
    return line;
}

}  // namespace tilescope
