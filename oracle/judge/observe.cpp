#include "oracle/judge/observe.h"

#include <atomic>

#include "dump/schema/error.h"
#include "oracle/formula/estimate.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

ObservedTile end_to_end_of(const ObservedTile& tile) {
    if (tile.end_to_end == nullptr) return tile;
    return {tile.problem, tile.context, tile.got, tile.end_to_end, tile.options, nullptr};
}

CompareOptions compare_options(const ObservedTile& tile) {
    if (!is_operand(tile.context.stage)) return tile.options;
    return tile.options.derived();
}

TileContext observed_context(const Recording& recording, const Problem& entry, Stage stage,
                             const TileId& tile, const MatrixF& got, bool against_other, bool completed) {
    TileContext context = tile_context(recording, entry, recording.units(), stage, tile, got);
    context.expects_nan = is_operand(stage) || against_other;
    // Nobody knows which elements of a named tile the kernel writes.
    context.may_be_unwritten = !completed || (is_named(stage) && !against_other);
    return context;
}

Judged judge_at(const ObservedTile& tile, const CompareOptions& options, Eigen::Index row, Eigen::Index col) {
    const Eigen::Index i = row * tile.got.cols() + col;
    const float got = tile.got.data()[i];
    const Expected expected = expected_of(*tile.expected, i, options);
    return {got, expected.value, expected.tolerance, judge_element(tile.context, row, got, expected)};
}

bool is_inherited(const ObservedTile& tile, Eigen::Index row, Eigen::Index col) {
    if (tile.end_to_end == nullptr) return false;
    const CompareOptions options = compare_options(tile);
    const Judged element = judge_at(tile, options, row, col);
    return is_inherited(tile.context, element.got, element.finding, *tile.end_to_end,
                        row * tile.got.cols() + col, options);
}

Element judged_element(const ObservedTile& tile, Eigen::Index row, Eigen::Index col) {
    const Judged element = judge_at(tile, compare_options(tile), row, col);
    return {element.finding,
            tile.context.tile,
            tile.context.first_row + row,
            tile.context.first_col + col,
            element.got,
            element.expected,
            element.tolerance};
}

TileObserver observer_of(const Recording& recording, const Recording* other, const CompareOptions& options,
                         const ObservedTileFunction& observe) {
    const bool both = completed(recording) && (other == nullptr || completed(*other));
    return [&, both, against_other = other != nullptr](Stage stage, const TileId& tile, const MatrixF& got,
                                                       const Estimate& expected) {
        const Problem entry = problem_of(recording.problem(), recording.side_inputs(), tile.batch);
        observe({entry, observed_context(recording, entry, stage, tile, got, against_other, both), got,
                 &expected, options});
    };
}

InheritedObserver inherited_observer_of(const Recording& recording, const CompareOptions& options,
                                        const ObservedTileFunction& observe) {
    return [&](Stage stage, const TileId& tile, const MatrixF& got, const Estimate& expected,
               const Estimate& end_to_end) {
        const Problem entry = problem_of(recording.problem(), recording.side_inputs(), tile.batch);
        const TileContext context =
            observed_context(recording, entry, stage, tile, got, false, completed(recording));
        observe({entry, context, got, &expected, options, &end_to_end});
    };
}

void observe_tiles(const Recording& recording, const Recording* other, JudgeOptions options,
                   std::int64_t batch, std::int64_t head, std::optional<std::int64_t> q_block,
                   const ObservedTileFunction& observe, const ObservedTileFunction& observe_inherited) {
    const Problem entry = problem_of(recording.problem(), recording.side_inputs(), batch);
    const std::int64_t blocks = q_block ? (*q_block < entry.q_blocks() ? 1 : 0) : entry.q_blocks();
    if (blocks == 0) return;
    std::atomic<bool> done = false;
    const CompareOptions compare = options.compare;
    options.only_head = std::pair{batch, head};
    options.only_q_block = q_block;
    options.observe = observer_of(recording, other, compare, observe);
    if (observe_inherited)
        options.observe_inherited = inherited_observer_of(recording, compare, observe_inherited);
    options.progress = [&, progress = options.progress](std::int64_t now, std::int64_t total) {
        if (progress) progress(now, total);
        if (now == total) done = true;
    };
    try {
        if (other != nullptr) {
            judge_pair(recording, *other, options);
        } else {
            judge(recording, options);
        }
    } catch (const Error&) {
        // Every tile was shown: it is the report that could not be made.
        if (!done) throw;
    }
}

void observe_end_to_end(const Recording& recording, JudgeOptions options, std::int64_t batch,
                        std::int64_t head, std::optional<std::int64_t> q_block,
                        const ObservedTileFunction& observe) {
    options.end_to_end_everywhere = true;
    const auto by_itself = [&](const ObservedTile& tile) {
        if (is_operand(tile.context.stage) || is_named(tile.context.stage)) observe(tile);
    };
    const auto from_inputs = [&](const ObservedTile& tile) { observe(end_to_end_of(tile)); };
    observe_tiles(recording, nullptr, std::move(options), batch, head, q_block, by_itself, from_inputs);
}

}  // namespace tilescope
