#include "oracle/output.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/products.h"
#include "oracle/softmax.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// What a row without keys holds: exactly this.
double empty_value(EmptyRow empty) {
    switch (empty) {
        case EmptyRow::zero:
            return 0;
        case EmptyRow::minus_infinity:
            return -infinity;
        case EmptyRow::plus_infinity:
            return infinity;
        case EmptyRow::nan:
            return std::numeric_limits<double>::quiet_NaN();
    }
    return 0;
}

/// acc += p v term by term, for V that holds NaN or infinities: 0 * NaN of a masked key must not reach the
/// sum.
void add_row_by_row(const Estimate& p, const Estimate& s, const Matrix& v, Estimate& acc,
                    double per_partial_sum) {
    for (Eigen::Index i = 0; i < p.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < p.value.cols(); ++j) {
            if (s.value(i, j) == -infinity && p.value(i, j) == 0) continue;
            acc.value.row(i) += p.value(i, j) * v.row(j);
            acc.error.row(i) +=
                (acc.value.row(i).cwiseAbs() + std::abs(p.value(i, j)) * v.row(j).cwiseAbs()) *
                    per_partial_sum +
                p.error(i, j) * v.row(j).cwiseAbs();
        }
    }
}

/// Joins a sink that comes last.
RunningState with_sink(const HeadCall& call, const RunningState& state) {
    RunningState joined = state;
    const double roundings = gamma(3, u_f32);
    for (Eigen::Index i = 0; i < state.m.value.rows(); ++i) {
        const double m = state.m.value(i, 0);
        const double most = std::max(m, call.sink);
        if (std::isnan(m)) continue;
        const double old_factor = m == -infinity ? 0 : std::exp(m - most);
        const double sink_term = std::exp(call.sink - most);
        const ExpFunctionBound function = exp_function_bound(call.units);
        const ExpArgumentBound argument = exp_argument_bound(call);
        const auto error_of = [&](double x) {
            return (argument.difference * std::abs(x - most) +
                    argument.terms * (std::abs(x) + std::abs(most))) +
                   function.constant + function.per_argument * std::abs(x - most) + roundings;
        };
        const double old_error = m == -infinity ? 0 : error_of(m) + state.m.error(i, 0);
        joined.m.value(i, 0) = most;
        joined.m.error(i, 0) = m == most ? state.m.error(i, 0) : 0;
        const double l = state.l.value(i, 0) * old_factor;
        joined.l.value(i, 0) = l + sink_term;
        joined.l.error(i, 0) = state.l.error(i, 0) * old_factor + l * old_error +
                               sink_term * (error_of(call.sink) + (m == most ? state.m.error(i, 0) : 0)) +
                               joined.l.value(i, 0) * u_f32;
        joined.acc.value.row(i) *= old_factor;
        joined.acc.error.row(i) *= old_factor;
        joined.acc.error.row(i) += joined.acc.value.row(i).cwiseAbs() * old_error;
    }
    return joined;
}

}  // namespace

RunningState initial_state(const HeadCall& call, std::int64_t rows, bool first_split) {
    RunningState state{zeros(rows, 1), zeros(rows, call.problem.l_lanes),
                       zeros(rows, call.problem.head_dim_v)};
    state.m.value.setConstant(-infinity);
    if (call.problem.sink != AttentionSink::first || !first_split) return state;
    state.m.value.setConstant(call.sink);
    // The sink in the units of m: a product with log2(e), or a division by the scale.
    state.m.error.setConstant(gamma(3, u_f32) * std::abs(call.sink));
    state.l.value.setConstant(1);
    return state;
}

AccumulatorRoundings accumulator_roundings(const HeadCall& call) {
    const Units& units = call.units;
    const bool half = call.problem.dtype_acc == Dtype::f16;
    const double u = half ? unit_roundoff(Dtype::f16) : u_f32;
    const bool is_scaled =
        units.acc_scale != units.p_scale || (!units.v_dequantised && units.acc_dequantised);
    const double scaling = is_scaled ? gamma(3, u) : 0;
    const double quantum = half ? 2 * half_quantum(Dtype::f16) : flush_to_zero;
    return {u + scaling, u + scaling, quantum * product_unit(call, Stage::acc)};
}

Estimate accumulate(const HeadCall& call, const Estimate& acc_before, const Estimate& factor,
                    const Estimate& p, const Estimate& s, const Matrix& v, double v_error) {
    const Units& units = call.units;
    const Matrix start = factor.value.col(0).asDiagonal() * acc_before.value;
    Estimate acc;
    if (all_finite(v) && all_finite(start) && all_finite(p.value)) {
        acc = sum_of_products(call, Stage::acc, units.acc_accumulation, p.value, v, false, start);
        if (!call.bounds) return acc;
        // Not its maximum: a NaN may hide it.
        const bool inexact = !(p.error.array() == 0).all();
        if (v_error > 0) {
            const Matrix weight = p.error + v_error * (p.value.cwiseAbs() + p.error);
            add_product(weight, v.cwiseAbs(), false, acc.error);
        } else if (inexact) {
            add_product(p.error, v.cwiseAbs(), false, acc.error);
        }
    } else {
        acc = {start, Matrix::Zero(start.rows(), start.cols())};
        const AccumulationBound bound = accumulation_bound(call.rounding, Stage::acc, units.acc_accumulation);
        add_row_by_row(p, s, v, acc, bound.per_partial_sum + bound.operand);
        acc.error.array() += bound.underflow * product_unit(call, Stage::acc) * double(p.value.cols());
        if (v_error > 0) acc.error += v_error * acc.value.cwiseAbs();
    }
    const AccumulatorRoundings roundings = accumulator_roundings(call);
    acc.error += start.cwiseAbs() * roundings.of_rescaled + acc.value.cwiseAbs() * roundings.of_sum;
    acc.error += factor.value.col(0).asDiagonal() * acc_before.error;
    acc.error += factor.error.col(0).asDiagonal() * (acc_before.value.cwiseAbs() + acc_before.error);
    acc.error.array() += roundings.near_zero;
    return acc;
}

RunningState combine(const HeadCall& call, std::span<const RunningState> splits) {
    const Eigen::Index rows = splits.front().m.value.rows();
    RunningState whole = initial_state(call, rows, false);
    whole.l = zeros(rows, 1);
    // A row that sees one split alone goes through the combine step as well.
    const bool is_split = call.problem.kv_tiles_per_split > 0;
    const double count = double(splits.size());
    for (Eigen::Index i = 0; i < rows; ++i) {
        double most = -infinity;
        for (const RunningState& split : splits) {
            if (!(split.m.value(i, 0) <= most)) most = split.m.value(i, 0);
        }
        whole.m.value(i, 0) = most;
        for (const RunningState& split : splits) {
            const double m = split.m.value(i, 0);
            if (m == -infinity && !std::isnan(most)) continue;
            if (m == most) whole.m.error(i, 0) = std::max(whole.m.error(i, 0), split.m.error(i, 0));
            const double factor = std::exp(m - most);
            double relative = gamma(double(call.problem.l_lanes), u_f32);
            if (is_split) {
                // lse of the split, its difference to that of the whole, its exponential, and the weighted
                // sum.
                const double lse =
                    std::abs(m) + std::abs(std::log(std::max(sum_of_row(split.l.value, i), 1e-300)));
                relative += log_function_bound(lse) + gamma(6, u_f32) * (lse + std::abs(most)) +
                            exp_function_bound(call.units).constant + gamma(count + 6, u_f32) +
                            split.m.error(i, 0);
            }
            whole.l.value(i, 0) += factor * sum_of_row(split.l.value, i);
            whole.l.error(i, 0) +=
                factor * (sum_of_row(split.l.error, i) + relative * std::abs(sum_of_row(split.l.value, i)));
            whole.acc.value.row(i) += factor * split.acc.value.row(i);
            whole.acc.error.row(i) +=
                factor *
                (split.acc.error.row(i) + (is_split ? relative : 0.0) * split.acc.value.row(i).cwiseAbs());
        }
    }
    return whole;
}

Estimate output(const HeadCall& call, const RunningState& state) {
    const RunningState whole = call.problem.sink == AttentionSink::last ? with_sink(call, state) : state;
    const Dtype dtype = call.problem.dtype_o;
    // A division of 2 ulp, or a reciprocal of 1 ulp and its product with acc; the scales and descale_v.
    const bool scaled = call.units.l_scale != call.units.acc_scale || !call.units.acc_dequantised;
    const double division = gamma(scaled ? 8 : 4, u_f32) + u_oracle;
    Estimate o = zeros(whole.acc.value.rows(), whole.acc.value.cols());
    for (Eigen::Index i = 0; i < o.value.rows(); ++i) {
        const double sum = whole.l.value(i, 0);
        if (sum == 0) {
            o.value.row(i).setConstant(empty_value(call.units.o_empty_row));
            continue;
        }
        const double sum_error = whole.l.error(i, 0);
        const double least = sum - sum_error;
        for (Eigen::Index j = 0; j < o.value.cols(); ++j) {
            const double value = whole.acc.value(i, j) / sum;
            const double inherited =
                least > 0 ? (whole.acc.error(i, j) + std::abs(value) * sum_error) / least : infinity;
            const double computed = inherited + division * std::abs(value) + flush_to_zero;
            o.value(i, j) = value;
            o.error(i, j) = computed + cast_bound(dtype, std::abs(value) + computed);
        }
    }
    return o;
}

Estimate log_sum_exp(const HeadCall& call, const RunningState& state) {
    const bool joins = call.problem.sink == AttentionSink::last && call.units.lse_includes_sink;
    const RunningState whole = joins ? with_sink(call, state) : state;
    Estimate lse = zeros(whole.m.value.rows(), 1);
    for (Eigen::Index i = 0; i < lse.value.rows(); ++i) {
        const double sum = whole.l.value(i, 0);
        if (sum == 0) {
            lse.value(i, 0) = empty_value(call.units.lse_empty_row);
            continue;
        }
        const double log_sum = std::log(sum);
        const double least = sum - whole.l.error(i, 0);
        const double inherited = least > 0 ? whole.m.error(i, 0) + whole.l.error(i, 0) / least : infinity;
        // Three roundings to convert m or the sum of both (log2(e) or ln 2, its product with sm_scale, and
        // the product with that), and the addition; a scale of l is taken off as a logarithm.
        const double log_scale = std::abs(std::log(call.units.l_scale));
        // A sink may join a logarithm that is there already.
        const double own_l = std::max(state.l.value(i, 0), 1e-300);
        const bool joined = joins && std::isfinite(state.m.value(i, 0));
        const double own = joined ? std::abs(state.m.value(i, 0)) + std::abs(std::log(own_l)) : 0;
        const double rounding =
            log_function_bound(std::abs(log_sum) + log_scale) +
            gamma(5, u_f32) * (std::abs(whole.m.value(i, 0)) + std::abs(log_sum) + log_scale + own);
        lse.value(i, 0) = whole.m.value(i, 0) + log_sum;
        lse.error(i, 0) = inherited + rounding + u_oracle * std::abs(lse.value(i, 0));
    }
    return lse;
}

}  // namespace tilescope
