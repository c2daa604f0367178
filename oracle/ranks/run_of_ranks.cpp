#include "oracle/ranks/run_of_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

auto order_of(const Recording& recording) {
    const Shard& shard = recording.problem().shard;
    const bool is_final = shard.kind == ShardKind::final;
    return std::tuple(shard.rank, is_final, shard.kind != ShardKind::owned, shard.step);
}

/// What all shards of a call agree on.
Problem in_common(const Problem& problem) {
    Problem common = whole_call(problem);
    common.named_tiles.clear();
    common.block_m = common.block_n = 1;
    // A rank may split its keys as it likes.
    common.kv_tiles_per_split = 0;
    common.split_starts.clear();
    common.l_lanes = common.l_lane_columns = 1;
    // Partial outputs may be stored otherwise than those at the end.
    common.dtype_o = Dtype::f32;
    return common;
}

}  // namespace

Problem whole_call(const Problem& problem) {
    Problem whole = problem;
    whole.seqlen_q = problem.whole_seqlen_q();
    whole.seqlen_kv = problem.whole_seqlen_kv();
    whole.shard = {};
    return whole;
}

const Positions& positions_of(const Problem& problem, Input input) {
    return input == Input::q ? problem.shard.q_positions : problem.shard.kv_positions;
}

std::string text_of_part(const Shard& shard) {
    if (shard.kind == ShardKind::owned) return fmt::format("rank {}", shard.rank);
    if (shard.kind == ShardKind::final) return fmt::format("rank {}, at the end", shard.rank);
    return fmt::format("rank {}, step {}", shard.rank, shard.step);
}

RunOfRanks::RunOfRanks(std::vector<std::unique_ptr<Recording>> parts) : parts_(std::move(parts)) {
    constexpr std::int64_t most_ranks = 1 << 16;
    for (const auto& part : parts_)
        if (!part->problem().shard.is_part() || part->problem().shard.ranks > most_ranks)
            throw Error(fmt::format("says that it is of a run of {} ranks", part->problem().shard.ranks),
                        part->name(),
                        fmt::format("give ranks and rank in /problem, of at most {}", most_ranks));
    std::ranges::sort(parts_, {}, [](const auto& part) { return order_of(*part); });
    whole_ = whole_call(parts_.front()->problem());
    const Problem common = in_common(parts_.front()->problem());
    for (std::size_t i = 1; i < parts_.size(); ++i) {
        const Recording& part = *parts_[i];
        const Recording& before = *parts_[i - 1];
        if (part.problem().shard.ranks != ranks() || in_common(part.problem()) != common)
            throw Error("is of another call than " + parts_.front()->name() + ", whose run it says it is of",
                        part.name(), "give each run an id of its own");
        if (order_of(part) == order_of(before))
            throw Error(fmt::format("is {} of the run, and so is {}", text_of_part(part.problem().shard),
                                    before.name()),
                        part.name(), "give each run an id of its own, and each launch of a rank a step");
    }
    for (std::int64_t rank = 0; rank < ranks(); ++rank) owners_.push_back(find_owned(rank));
}

const Recording* RunOfRanks::find_owned(std::int64_t rank) const {
    std::int64_t received = 0;  // before it launched anything
    for (const auto& part : parts_) {
        const Shard& shard = part->problem().shard;
        if (shard.rank != rank || shard.kind == ShardKind::final) continue;
        received += shard.kind == ShardKind::received;
        if (shard.kind == ShardKind::received || !part->has_inputs()) continue;
        return shard.kind == ShardKind::owned || shard.step == received ? part.get() : nullptr;
    }
    return nullptr;
}

std::vector<const Recording*> RunOfRanks::steps_of(std::int64_t rank) const {
    std::vector<const Recording*> steps;
    for (const auto& part : parts_) {
        const Shard& shard = part->problem().shard;
        if (shard.rank == rank && shard.is_merged()) steps.push_back(part.get());
    }
    return steps;
}

const Recording* RunOfRanks::final_of(std::int64_t rank) const {
    const auto found = std::ranges::find_if(parts_, [&](const auto& part) {
        const Shard& shard = part->problem().shard;
        return shard.rank == rank && shard.kind == ShardKind::final;
    });
    return found == parts_.end() ? nullptr : found->get();
}

RunOfRanks::Owner RunOfRanks::owner_of(Input input, std::int64_t position) const {
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
        const Recording* const owned = owned_by(rank);
        if (owned == nullptr) continue;
        const Problem& problem = owned->problem();
        const std::int64_t row = row_at(positions_of(problem, input), position);
        const std::int64_t rows = input == Input::q ? problem.seqlen_q : problem.seqlen_kv;
        if (row >= 0 && row < rows) return {owned, rank, row};
    }
    return {};
}

}  // namespace tilescope
