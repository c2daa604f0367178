#include "oracle/ranks/whole_view.h"

#include <algorithm>

#include "oracle/ranks/owned_rows.h"

namespace tilescope {

namespace {

/// KV tiles of all of the rank's steps, and the merges between them, each of which rounds as a tile's rescaling does.
std::int64_t tiles_and_merges(const RunOfRanks& run, std::int64_t rank) {
    std::int64_t count = 0;
    for (const Recording* const step : run.steps_of(rank)) count += step->problem().kv_tiles() + 1;
    return std::max(count, std::int64_t(1));
}

}  // namespace

WholeView::WholeView(const RunOfRanks& run, const Recording& final)
    : RecordingView(final), run_(run), problem_(final.problem()) {
    const Shard& shard = problem_.shard;
    const std::int64_t tiles = tiles_and_merges(run, shard.rank);
    problem_.seqlen_kv = run.whole().seqlen_kv;
    problem_.block_n = std::clamp(problem_.seqlen_kv / tiles, std::int64_t(1), problem_.block_n);
    const std::int64_t steps = std::max(std::int64_t(run.steps_of(shard.rank).size()), std::int64_t(1));
    problem_.kv_tiles_per_split = (problem_.kv_tiles() + steps - 1) / steps;
    problem_.split_starts.clear();
    problem_.shard.kv_positions.clear();
    has_q_ = are_owned(run, problem_, Input::q);
    has_kv_ = are_owned(run, problem_, Input::k);
}

void WholeView::read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                           std::int64_t count, Span<float> out) const {
    read_owned_rows(run_, problem_, input, batch, head, row, count, out);
}

}  // namespace tilescope
