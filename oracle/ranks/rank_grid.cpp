#include "oracle/ranks/rank_grid.h"

#include <algorithm>

namespace tilescope {

namespace {

std::int64_t compared_of(const RankPart& part) {
    std::int64_t count = part.report ? part.report->compared() : 0;
    for (const PartStage& stage : part.stages) count += stage.tally.compared;
    return count;
}

double worst_of(const StageTally& tally) {
    return tally.worst.empty() || !tally.diverges() ? tally.budget_used : tally.worst.front().ratio();
}

}  // namespace

PartState state_of(const RankReport& report, std::size_t part) {
    if (!report.faults.empty() && report.faults.front().part == part) return PartState::first_wrong;
    if (std::ranges::find(report.faults, part, &RankFault::part) != report.faults.end())
        return PartState::wrong_too;
    const RankPart& of = report.parts[part];
    if (of.inherits) return PartState::inherited;
    return compared_of(of) > 0 ? PartState::right : PartState::not_judged;
}

double worst_of(const RankReport& report, std::size_t part) {
    const RankPart& of = report.parts[part];
    double worst = 0;
    for (const PartStage& stage : of.stages) worst = std::max(worst, worst_of(stage.tally));
    if (!of.report) return worst;
    for (const StageReport& stage : of.report->stages) worst = std::max(worst, worst_of(stage.tally));
    return worst;
}

RankGrid::RankGrid(std::int64_t ranks, std::span<const Shard> parts) : ranks_(ranks) {
    for (const Shard& shard : parts) {
        if (shard.is_merged()) steps_.push_back(shard.step);
        has_final_ = has_final_ || shard.kind == ShardKind::final;
    }
    std::ranges::sort(steps_);
    steps_.erase(std::ranges::unique(steps_).begin(), steps_.end());
    for (std::size_t i = 0; i < parts.size(); ++i)
        if (const auto column = column_of(parts[i])) parts_[{parts[i].rank, *column}] = i;
}

std::optional<std::size_t> RankGrid::part_at(std::int64_t rank, std::int64_t column) const {
    const auto found = parts_.find({rank, column});
    return found == parts_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int64_t> RankGrid::column_of(const Shard& shard) const {
    if (shard.kind == ShardKind::owned) return std::nullopt;
    if (shard.kind == ShardKind::final) return columns() - 1;
    return std::ranges::lower_bound(steps_, shard.step) - steps_.begin();
}

bool RankGrid::ends_before(std::int64_t rank, std::int64_t column) const {
    const auto is_step_of_rank = [&](const auto& at) {
        return at != parts_.end() && at->first.first == rank &&
               at->first.second < std::int64_t(steps_.size());
    };
    return is_step_of_rank(parts_.lower_bound({rank, 0})) &&
           !is_step_of_rank(parts_.lower_bound({rank, column}));
}

RankGrid grid_of(const RankReport& report) {
    std::vector<Shard> shards;
    for (const RankPart& part : report.parts) shards.push_back(part.shard);
    return {report.ranks, shards};
}

}  // namespace tilescope
