#include "oracle/causes/rounded_partials.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "dump/schema/rounding.h"
#include "dump/schema/semantics.h"
#include "oracle/formula/head_call.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// Fewer elements that only the rounding explains are a chance.
constexpr std::int64_t fewest_telling = 4;

/// A query block's o as recorded, and the states of its splits.
struct SplitBlock {
    HeadCall call;  ///< without a type of partial o
    MatrixF got;
    std::vector<RunningState> splits;
    Estimate unrounded;  ///< o of unrounded splits
};

std::optional<SplitBlock> split_block(const Recording& recording, const TileId& block, double confidence) {
    SplitBlock merged;
    merged.call =
        make_head_call(recording, rounding_model_of(recording, confidence), block.batch, block.head);
    merged.call.problem.dtype_partial_o = Dtype::f32;
    const HeadCall& call = merged.call;
    const Problem& problem = call.problem;
    std::optional<MatrixF> got = load_tile(recording, problem, Stage::o, block);
    if (!got || got->size() == 0) return std::nullopt;
    merged.got = std::move(*got);
    const auto operand = [&](Stage stage, Input input, std::int64_t head, std::int64_t first,
                             const TileId& tile) {
        const StagedOperand staged = staged_operand(
            call, stage, first,
            load_input(recording, input, block.batch, head, first, tile_extent(problem, stage, tile).rows));
        const std::optional<MatrixF> dumped = load_tile(recording, problem, stage, tile);
        return dumped ? dumped_operand(call, stage, first, staged, *dumped) : staged.natural;
    };
    const Operand q = operand(Stage::q, Input::q, block.head, block.q_block * problem.block_m, block);
    Replay replay(call, block.q_block, Stage::acc, Replay::Source::stages);
    for (std::int64_t i = 0; i < problem.kv_tiles(); ++i) {
        TileId tile = block;
        tile.kv_tile = kv_tile_in_order(problem, call.units.kv_order, i);
        if (!takes_part(recording, problem, forward_tile_stages, tile)) continue;
        DumpedTile dumped;
        for (const Stage stage : forward_tile_stages)
            dumped[static_cast<std::size_t>(stage)] = load_tile(recording, problem, stage, tile);
        const std::int64_t key = tile.kv_tile * problem.block_n;
        const std::int64_t head = problem.head_kv(block.head);
        replay.step(
            tile.kv_tile,
            {q, operand(Stage::k, Input::k, head, key, tile), operand(Stage::v, Input::v, head, key, tile)},
            dumped);
    }
    merged.splits = replay.begun_splits();
    merged.unrounded = replay.output();
    return merged;
}

/// What one element of o may be.
struct RoundedElement {
    double least = 0;  ///< of rounded splits, where none of them is off
    double most = 0;
    double unrounded = 0;  ///< of the splits as they are
    double off = 0;        ///< that merging them and storing o may add
};

RoundedElement rounded_element(const SplitBlock& merged, Dtype dtype, Eigen::Index row, Eigen::Index col) {
    const auto rounded = [&](double o) { return double(decode(dtype, encode(dtype, o))); };
    const Estimate& whole = merged.unrounded;
    double most = -std::numeric_limits<double>::infinity();
    for (const RunningState& split : merged.splits) most = std::max(most, split.m.value(row, 0));
    RoundedElement element;
    double sum = 0;
    double magnitude = 0;
    for (const RunningState& split : merged.splits) {
        const double l = sum_of_row(split.l.value, row);
        if (!(l > 0)) continue;
        const double l_error = sum_of_row(split.l.error, row) / l;
        const double weight = l * std::exp(split.m.value(row, 0) - most);
        const double o = split.acc.value(row, col) / l;
        // A division and what its operands are off by.
        const double error = split.acc.error(row, col) / l + std::abs(o) * (l_error + gamma(4, u_f32));
        sum += weight;
        magnitude += weight * std::abs(o);
        element.least += weight * rounded(o - error);
        element.most += weight * rounded(o + error);
        element.unrounded += weight * o;
        // lse of the split, its exponential, the weighted sum.
        element.off += weight * std::abs(o) * (l_error + split.m.error(row, 0));
    }
    const double scale = element.unrounded == 0 ? 1 / sum : whole.value(row, col) / element.unrounded;
    for (double* part : {&element.least, &element.most, &element.unrounded, &element.off}) *part *= scale;
    if (scale < 0) std::swap(element.least, element.most);
    element.off = std::abs(element.off) + std::abs(scale) * magnitude * gamma(64, u_f32);
    element.off += cast_bound(merged.call.problem.dtype_o, std::abs(element.unrounded) + element.off);
    return element;
}

/// Whether all elements of the block fit; counts those that fit with the rounding alone.
bool fits_rounded(const SplitBlock& merged, Dtype dtype, std::int64_t& telling) {
    for (Eigen::Index row = 0; row < merged.got.rows(); ++row) {
        for (Eigen::Index col = 0; col < merged.got.cols(); ++col) {
            const double got = merged.got(row, col);
            if (!std::isfinite(merged.unrounded.value(row, col)) || merged.unrounded.value(row, col) == got)
                continue;
            const RoundedElement element = rounded_element(merged, dtype, row, col);
            if (!(got >= element.least - element.off && got <= element.most + element.off)) return false;
            telling += std::abs(got - element.unrounded) > merged.unrounded.error(row, col);
        }
    }
    return true;
}

}  // namespace

bool partials_show(const Recording& recording, Dtype dtype, double confidence) {
    const Problem& problem = recording.problem();
    if (dtype == Dtype::f32) return true;
    if (dtype_info(dtype).bytes != 2 || !problem.is_split() || !recording.has_stage(Stage::o)) return false;
    std::int64_t telling = 0;
    for (std::int64_t i = 0; i < tile_count(problem, Stage::o); ++i) {
        const std::optional<SplitBlock> merged =
            split_block(recording, tile_at(problem, Stage::o, i), confidence);
        if (merged && !fits_rounded(*merged, dtype, telling)) return false;
    }
    return telling >= fewest_telling;
}

}  // namespace tilescope
