#include "oracle/replay.h"

#include <numbers>

namespace tilescope {

namespace {

const std::optional<MatrixF>& of(const DumpedTile& dumped, Stage stage) {
    return dumped[static_cast<std::size_t>(stage)];
}

/// P after the cast to the operand type of the PV product. Casting a dumped P is exact; casting an estimate
/// adds the bound of the cast.
Estimate cast_operand(const Estimate& p, Dtype dtype) {
    if (dtype == Dtype::f32) return p;
    Estimate operand = p;
    for (Eigen::Index i = 0; i < p.value.size(); ++i) {
        const double value = p.value.data()[i];
        if (p.error.data()[i] == 0) {
            operand.value.data()[i] = decode(dtype, encode(dtype, value));
        } else {
            operand.error.data()[i] +=
                unit_roundoff(dtype) * (value + p.error.data()[i]) + half_quantum(dtype);
        }
    }
    return operand;
}

}  // namespace

double dump_factor(const Problem& problem, const Units& units, Stage stage) {
    const auto factor = [&](bool scaled, LogBase base) {
        return (scaled ? 1 : 1 / problem.sm_scale) * (base == LogBase::two ? std::numbers::log2e : 1);
    };
    switch (stage) {
        case Stage::s:
            return factor(units.s_scaled, units.s_log_base);
        case Stage::m:
            return factor(units.m_scaled, units.m_log_base);
        case Stage::lse:
            return factor(true, units.lse_log_base);
        default:
            return 1;
    }
}

Estimate settle(const Estimate& estimate, const MatrixF& dumped, double factor) {
    Estimate settled = estimate;
    for (Eigen::Index i = 0; i < dumped.size(); ++i) {
        const float value = dumped.data()[i];
        if (is_unwritten(value)) continue;
        settled.value.data()[i] = double(value) / factor;
        settled.error.data()[i] = 0;
    }
    return settled;
}

Replay::Replay(const Problem& problem, const Units& units, std::int64_t q_block, Stage last)
    : problem_(problem),
      units_(units),
      q_block_(q_block),
      last_(last),
      state_(initial_state(tile_extent(problem, Stage::m, {0, 0, q_block, 0}).rows, problem.head_dim_v)) {}

TileEstimates Replay::step(std::int64_t kv_tile, const TileOperands& operands, const DumpedTile& dumped) {
    const auto settled = [&](Stage stage, const Estimate& estimate) {
        const auto& values = of(dumped, stage);
        return values ? settle(estimate, *values, dump_factor(problem_, units_, stage)) : estimate;
    };
    const std::int64_t first_row = q_block_ * problem_.block_m;
    const std::int64_t first_key = kv_tile * problem_.block_n;

    TileEstimates tile;
    tile.s = scores(problem_, units_, operands.q, operands.k);
    if (units_.s_masked) apply_mask(problem_, first_row, first_key, tile.s);
    if (!wants(Stage::m)) return tile;

    Estimate s = settled(Stage::s, tile.s);
    if (!units_.s_masked) apply_mask(problem_, first_row, first_key, s);
    tile.m = row_max(units_, state_.m, s);
    Estimate m = settled(Stage::m, tile.m);

    if (wants(Stage::p)) {
        // P before its cast is what l adds up, P after it is what multiplies V; the dump holds one of the
        // two.
        const Estimate computed = probabilities(units_, s, m);
        tile.p = with_cast_bound(computed, units_.p_cast);
        const Estimate dumped_p = settled(Stage::p, tile.p);
        const bool dumped_uncast = units_.p_cast == Dtype::f32;
        const Estimate& uncast = dumped_uncast ? dumped_p : computed;
        const Estimate operand = dumped_uncast ? cast_operand(dumped_p, problem_.dtype_p) : dumped_p;

        if (wants(Stage::l)) {
            const Estimate factor = rescale_factor(units_, state_.m, m);
            tile.l = row_sum(state_.l, factor, units_.l_sums_cast_p ? operand : uncast);
            state_.l = settled(Stage::l, tile.l);
            if (wants(Stage::acc)) {
                tile.acc = accumulate(units_, state_.acc, factor, operand, s, operands.v);
                state_.acc = settled(Stage::acc, tile.acc);
            }
        }
    }
    state_.m = std::move(m);
    return tile;
}

Estimate Replay::output() const {
    return tilescope::output(problem_, state_.acc, state_.l);
}

Estimate Replay::log_sum_exp() const {
    return tilescope::log_sum_exp(state_.m, state_.l);
}

}  // namespace tilescope
