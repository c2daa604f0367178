#include "dump/watch/bounds.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dump/schema/rounding.h"
#include "dump/schema/semantics.h"

namespace tilescope {

namespace {

/// What exp(s - m) of a score near its maximum may be off by, as a logarithm: conversions of s and m to the
/// units of the exponential, at most 5 roundings each, what its argument makes of both, their difference, and
/// the logarithm of p_scale where that is added to m.
double argument_error(const Units& units, double m_magnitude) {
    const ExpArgumentBound argument = exp_argument_bound(units.p_exp);
    const double distance =
        units.m_stale_threshold + std::abs(units.m_offset) + std::abs(std::log(units.p_scale)) + 1;
    return 2 * (argument.terms + gamma(5, u_f32)) * (m_magnitude + distance) + argument.difference * distance;
}

/// How far a score may be above m.
double most_above_m(const Units& units) {
    return units.m_stale_threshold - units.m_offset;
}

/// Of the exponential itself near 0, a product with p_scale, and a cast.
double function_error(const Units& units, Dtype cast) {
    const ExpFunctionBound function = exp_function_bound(units);
    return function.constant +
           function.per_argument * (units.m_stale_threshold + std::abs(units.m_offset) + 1) +
           gamma(3, u_f32) + unit_roundoff(cast);
}

/// What adding one product may be off by, relative to the sum of the magnitudes, on the coarsest device.
double term_error(Accumulation accumulation) {
    return sum_rounding(TensorCore(), accumulation).per_partial_sum;
}

std::optional<double> natural_m_magnitude(const WatchedTile& tile) {
    const std::optional<double> unit =
        score_unit(tile.call, tile.call.units.m_scaled, tile.call.units.m_log_base);
    if (!unit || tile.state == nullptr || !tile.state->of(Stage::m)) return std::nullopt;
    return tile.state->m_magnitude * *unit;
}

/// Of those that P is multiplied with before its cast.
double least_descale_in_p(const WatchedCall& call) {
    double least = 1;
    if (call.units.p_descale_v == DescaleInP::none) return least;
    for (const float value : call.run.side_inputs().descale_v.values) least = std::min(least, double(value));
    return least;
}

/// Whether P is relative to m alone, and m a score.
bool is_plain(const Units& units) {
    return !units.p_of_tile_max && !units.p_normalised && !units.m_from_lse;
}

/// Whether some row has seen numbers in place of scores alone: it adds up exp(0) for each of them, and for the
/// padding that is masked alike.
bool sums_numbers(const WatchedTile& tile) {
    return masks_with_number(tile.call.units) && tile.cells().keyless_rows > 0;
}

}  // namespace

std::optional<double> score_unit(const WatchedCall& call, bool scaled, LogBase base) {
    const double natural = base == LogBase::two ? std::numbers::ln2 : 1.0;
    if (scaled) return natural;
    const SideInputs& side = call.run.side_inputs();
    if (!side.descale_q.empty() || !side.descale_k.empty()) return std::nullopt;
    const double cap = call.problem.logits_soft_cap;
    return natural * (cap > 0 ? cap : product_scale(call.problem, call.units));
}

std::optional<ProbabilityBound> probability_bound(const WatchedTile& tile) {
    const Units& units = tile.call.units;
    const std::optional<double> magnitude = natural_m_magnitude(tile);
    if (!magnitude || tile.call.problem.direction == Direction::backward || !is_plain(units) ||
        units.p_descale_v == DescaleInP::recorded)
        return std::nullopt;
    const double argument = argument_error(units, *magnitude);
    const double function = function_error(units, units.p_cast);
    return ProbabilityBound{units.p_scale * std::exp(most_above_m(units) + argument) * (1 + function),
                            units.p_scale * std::exp(-units.m_offset - argument) * (1 - function)};
}

std::optional<RowSumBound> row_sum_bound(const WatchedTile& tile) {
    const Units& units = tile.call.units;
    const std::optional<double> magnitude = natural_m_magnitude(tile);
    if (!magnitude || sums_numbers(tile) || !is_plain(units)) return std::nullopt;
    const double tiles = double(tile.state->tiles);
    const bool first_sink = tile.call.problem.sink == AttentionSink::first;
    const double terms = double(tile.cells().most_keys) + (first_sink ? 1.0 : 0.0);
    // Rescaled once a tile, by an exponential of its own.
    const double argument = argument_error(units, *magnitude) * (tiles + 1);
    const double function =
        function_error(units, units.l_sums_cast_p ? tile.call.problem.dtype_p : Dtype::f32) +
        tiles * function_error(units, Dtype::f32) + (terms + 2 * tiles) * u_f32;
    return RowSumBound{units.l_scale * terms * std::exp(most_above_m(units) + argument + function),
                       units.l_scale * std::exp(-units.m_offset - argument - 2 * function)};
}

std::optional<double> tile_sum_error(const WatchedTile& tile) {
    const Units& units = tile.call.units;
    const std::optional<double> magnitude = natural_m_magnitude(tile);
    if (!magnitude || sums_numbers(tile) || !is_plain(units) || units.p_descale_v == DescaleInP::recorded)
        return std::nullopt;
    const Dtype summed = units.l_sums_cast_p ? tile.call.problem.dtype_p : Dtype::f32;
    // The statistics add up in float32, a thread's part at a time, and the kernel does.
    const double elements = double(tile.extent.rows * tile.call.problem.block_n);
    return argument_error(units, *magnitude) + function_error(units, Dtype::f32) + unit_roundoff(summed) +
           unit_roundoff(units.p_cast) + 4 * elements * u_f32;
}

std::optional<double> split_error(const WatchedTile& tile) {
    if (!tile.call.problem.is_split()) return 0.0;
    const Units& units = tile.call.units;
    const std::optional<double> unit = score_unit(tile.call, units.m_scaled, units.m_log_base);
    if (!unit || !tile.all_m.known) return std::nullopt;
    // lse lies within log(keys) of its maximum.
    const double log_keys = std::log(double(tile.block->most_keys) + 1);
    return std::expm1(argument_error(units, tile.all_m.magnitude() * *unit + log_keys));
}

double mean_error(const WatchedCall& call, double keys, double tiles) {
    const Units& units = call.units;
    const Dtype dtype_p = call.problem.dtype_p;
    const double kept = call.problem.dtype_acc == Dtype::f32 ? u_f32 : unit_roundoff(call.problem.dtype_acc);
    const double operands = sum_rounding(TensorCore(), units.acc_accumulation).operand;
    // A row's sum is at least the exponential of its maximum: the absolute error of casting small P counts in full.
    const double underflow =
        keys * half_quantum(dtype_p) / (units.p_scale * least_descale_in_p(call)) * std::exp(units.m_offset);
    return 2 * unit_roundoff(dtype_p) + operands + underflow +
           keys * (term_error(units.acc_accumulation) + u_f32) + tiles * (kept + 4 * u_f32) + 16 * u_f32;
}

}  // namespace tilescope
