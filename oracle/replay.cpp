#include "oracle/replay.h"

#include <cmath>
#include <utility>

#include "oracle/softmax.h"

namespace tilescope {

namespace {

std::int64_t rows_of(const HeadCall& call, std::int64_t q_block) {
    return tile_extent(call.problem, Stage::m, {0, 0, q_block, 0}).rows;
}

}  // namespace

Estimate settle(const Estimate& estimate, const MatrixF& dumped, const DumpFactor& factor) {
    Estimate settled = estimate;
    const bool is_natural = factor.is_one();
    for (Eigen::Index i = 0; i < dumped.rows(); ++i) {
        for (Eigen::Index j = 0; j < dumped.cols(); ++j) {
            const float value = dumped(i, j);
            if (is_unwritten(value)) continue;
            settled.value(i, j) = is_natural ? double(value) : double(value) / factor.at(i, j);
            settled.error(i, j) = 0;
        }
    }
    return settled;
}

Estimate in_dump_units(const Estimate& natural, const DumpFactor& factor) {
    Estimate there = natural;
    for (Eigen::Index i = 0; i < there.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < there.value.cols(); ++j) {
            const double by = factor.at(i, j);
            double& value = there.value(i, j);
            double& error = there.error(i, j);
            value *= by;
            if (there.spread.size() > 0) there.spread(i, j) *= std::abs(by);
            if (error != 0 || !std::isinf(value)) error *= by;
            if (std::isfinite(value)) error += std::abs(value) * u_oracle;
        }
    }
    return there;
}

Replay::Replay(const HeadCall& call, std::int64_t q_block, Stage last, Source source)
    : call_(call),
      q_block_(q_block),
      last_(last),
      source_(source),
      state_(initial_state(call, rows_of(call, q_block), true)) {}

void Replay::begin_split(std::int64_t kv_tile) {
    const std::int64_t tiles = call_.problem.kv_tiles_per_split;
    const std::int64_t split = tiles > 0 ? kv_tile / tiles : 0;
    if (split == split_) return;
    finished_.push_back(std::move(state_));
    // In reverse order split 0 comes last: what it began with was put aside first, with its sink.
    if (split == 0) finished_.erase(finished_.begin());
    state_ = initial_state(call_, rows_of(call_, q_block_), split == 0);
    split_ = split;
}

const Estimate& Replay::settled(Stage stage, std::int64_t kv_tile, const Estimate& estimate,
                                const DumpedTile& dumped, Estimate& room) const {
    const auto& values = of(dumped, stage);
    if (!values || source_ == Source::inputs) return estimate;
    room = settle(estimate, *values,
                  dump_factor(call_, stage, q_block_ * call_.problem.block_m, kv_tile * call_.problem.block_n,
                              values->rows(), values->cols()));
    return room;
}

Estimate Replay::settled_max(std::int64_t kv_tile, const Estimate& estimate, const DumpedTile& dumped) const {
    const double threshold = call_.units.m_stale_threshold;
    Estimate m;
    if (source_ == Source::stages || threshold == 0) return settled(Stage::m, kv_tile, estimate, dumped, m);
    m = estimate;
    const auto& values = of(dumped, Stage::m);
    const DumpFactor factor = dump_factor(call_, Stage::m, q_block_ * call_.problem.block_m,
                                          kv_tile * call_.problem.block_n, estimate.value.rows(), 1);
    for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
        if (!std::isfinite(m.value(i, 0))) continue;
        const double chosen = values ? double((*values)(i, 0)) / factor.at(i, 0) : 0;
        // The kernel's m is rounded, which is in the error only where there are bounds.
        const double slack = gamma(8, u_f32) * (std::abs(m.value(i, 0)) + m.error(i, 0));
        const bool legal = values && std::abs(chosen - m.value(i, 0)) <= m.error(i, 0) + slack;
        m.value(i, 0) = legal ? chosen : m.value(i, 0) + m.error(i, 0);
        m.error(i, 0) = 0;
    }
    return m;
}

TileEstimates Replay::step(std::int64_t kv_tile, const TileOperands& operands, const DumpedTile& dumped) {
    const std::int64_t first_row = q_block_ * call_.problem.block_m;
    const std::int64_t first_key = kv_tile * call_.problem.block_n;
    begin_split(kv_tile);

    TileEstimates tile;
    tile.s = dumped_scores(call_, first_row, first_key, operands.q, operands.k);
    if (!wants(Stage::m)) return tile;

    Estimate room;
    const Estimate s =
        finish_scores(call_, first_row, first_key, settled(Stage::s, kv_tile, tile.s, dumped, room));
    tile.m = row_max(call_, state_.m, s);
    Estimate m = settled_max(kv_tile, tile.m, dumped);
    if (wants(Stage::p)) step_softmax(kv_tile, s, m, operands.v, dumped, tile);
    state_.m = std::move(m);
    return tile;
}

void Replay::step_softmax(std::int64_t kv_tile, const Estimate& s, const Estimate& m, const Operand& v,
                          const DumpedTile& dumped, TileEstimates& tile) {
    // P before its cast is what l adds up, P after it is what multiplies V; the dump holds one of the two.
    const Units& units = call_.units;
    const bool dumped_uncast = units.p_cast == Dtype::f32;
    Estimate computed = probabilities(call_, s, m);
    tile.p = dumped_uncast ? std::move(computed) : cast_probabilities(call_, computed, units.p_cast);
    if (!wants(Stage::l)) return;
    Estimate p_room;
    const Estimate& dumped_p = settled(Stage::p, kv_tile, tile.p, dumped, p_room);
    const Estimate& uncast = dumped_uncast ? dumped_p : computed;
    Estimate cast_room;
    const bool casts = dumped_uncast && call_.problem.dtype_p != Dtype::f32;
    if (casts) cast_room = cast_probabilities(call_, dumped_p, call_.problem.dtype_p);
    const Estimate& operand = casts ? cast_room : dumped_p;

    const Estimate factor = rescale_factor(call_, state_.m, m);
    tile.l = row_sum(call_, state_.l, factor, units.l_sums_cast_p ? operand : uncast);
    Estimate l_room;
    state_.l = settled(Stage::l, kv_tile, tile.l, dumped, l_room);
    if (!wants(Stage::acc)) return;
    tile.acc = accumulate(call_, state_.acc, factor, operand, s, v.value, v.error);
    Estimate acc_room;
    state_.acc = settled(Stage::acc, kv_tile, tile.acc, dumped, acc_room);
}

RunningState Replay::whole() const {
    if (call_.problem.kv_tiles_per_split == 0 && call_.problem.l_lanes == 1) return state_;
    std::vector<RunningState> splits = finished_;
    splits.push_back(state_);
    return combine(call_, splits);
}

Estimate Replay::output() const {
    return tilescope::output(call_, whole());
}

Estimate Replay::log_sum_exp() const {
    return tilescope::log_sum_exp(call_, whole());
}

}  // namespace tilescope
