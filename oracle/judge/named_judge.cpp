#include "oracle/judge/named_judge.h"

#include <limits>

#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

/// Nothing can be expected of it.
Estimate without_reference(const MatrixF& got) {
    return {Matrix::Constant(got.rows(), got.cols(), std::numeric_limits<double>::quiet_NaN()),
            Matrix::Ones(got.rows(), got.cols())};
}

void compare_runs(const Plan& plan, const Problem& entry, Stage stage, const TileId& tile,
                  JudgedPart& partial) {
    const Recording& other = *plan.other;
    const std::optional<MatrixF> got = load_tile(plan.recording, entry, stage, tile);
    const std::optional<MatrixF> theirs = load_tile(other, entry, stage, tile);
    TileContext context = tile_context(entry, stage, tile);
    if (!got || !theirs) {
        if (is_missing_in_pair(plan.recording, other, entry, stage, tile))
            count_missing_tile(context, tile_extent(entry, stage, tile), plan.compare, partial.tally(stage));
        return;
    }
    context.expects_nan = true;
    context.may_be_unwritten =
        plan.recording.capture().ended != "completed" || other.capture().ended != "completed";
    const Estimate expected{theirs->cast<double>(), Matrix::Zero(theirs->rows(), theirs->cols())};
    if (plan.observe) plan.observe(stage, tile, *got, expected);
    compare_tile(context, *got, expected, nullptr, plan.compare, partial.tally(stage));
}

void observe_alone(const Plan& plan, const Problem& entry, Stage stage, const TileId& tile) {
    const std::optional<MatrixF> got = load_tile(plan.recording, entry, stage, tile);
    if (got) plan.observe(stage, tile, *got, without_reference(*got));
}

}  // namespace

void judge_named(const Plan& plan, Stage stage, const TileId& outer, JudgedPart& partial) {
    const Problem entry = problem_of(plan.problem(), plan.recording.side_inputs(), outer.batch);
    const std::int64_t kv_tiles =
        stage_info(plan.problem(), stage).per_kv_tile ? plan.problem().kv_tiles() : 1;
    TileId tile = outer;
    for (tile.kv_tile = 0; tile.kv_tile < kv_tiles; ++tile.kv_tile) {
        const TileShape extent = tile_extent(entry, stage, tile);
        if (extent.rows <= 0 || extent.cols <= 0) continue;
        if (plan.other != nullptr) {
            compare_runs(plan, entry, stage, tile, partial);
        } else {
            observe_alone(plan, entry, stage, tile);
        }
    }
}

}  // namespace tilescope
