#include "oracle/softmax.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "oracle/views.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Roundings of turning a score into the units of m.
double max_roundings(const HeadCall& call) {
    const Units& u = call.units;
    const bool several = call.capped() || !u.q_dequantised || !u.k_dequantised;
    const double scaling = u.s_scaled == u.m_scaled ? 0 : several ? 3 : 1;
    return scaling + (u.s_log_base == u.m_log_base ? 0 : 2);
}

ExponentialBound exponential_bound(const HeadCall& call) {
    const Units& units = call.units;
    const ExpArgumentBound argument = exp_argument_bound(call);
    const ExpFunctionBound function = exp_function_bound(units);
    ExponentialBound bound;
    bound.argument_difference = argument.difference;
    bound.argument_terms = argument.terms;
    bound.function = function.constant;
    bound.function_argument = function.per_argument;
    // An lse that the kernel was given may be anything.
    const bool backward = call.problem.direction == Direction::backward;
    bound.most_above_m = backward ? infinity : units.m_stale_threshold;
    // The scale is a product after the exponential, or its logarithm a term inside it, which is rounded,
    // added to m, and added to s - m.
    const double log_scale = std::abs(std::log(units.p_scale));
    if (units.p_scale != 1)
        bound.function += gamma(3, u_f32) * (1 + log_scale) + function.per_argument * log_scale;
    return bound;
}

Estimate exponentials(const HeadCall& call, const Estimate& s, const Estimate& m) {
    Estimate result = zeros(s.value.rows(), s.value.cols());
    vector_kernels().exponentials(view(s.value), view(s.error), m.value.data(), m.error.data(),
                                  exponential_bound(call), view(result.value),
                                  call.bounds ? view(result.error) : View<double>());
    return result;
}

/// Half an ulp of float32 is u times this: the power of two that is not above |sum|. What was computed may be
/// just beyond one where the exact sum is just below it.
double leading_power(double sum) {
    constexpr std::uint64_t exponent = 0x7ff0'0000'0000'0000u;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(sum * (1 + 0x1p-14)) & exponent);
}

/// Roundings of the additions of a sum, each off by half an ulp of its partial sum, in units of u: certain,
/// and the squares of likely ones.
struct Roundings {
    double certain = 0;
    double squares = 0;

    void add(double partial_sum, double times = 1) {
        const double ulps = leading_power(partial_sum);
        certain += times * ulps;
        squares += times * ulps * ulps;
    }
};

Roundings roundings_of(double start, auto first, auto last) {
    Roundings roundings;
    for (double sum = start; first != last; ++first) roundings.add(sum += *first);
    return roundings;
}

struct RowSum {
    double sum = 0;
    double error = 0;   ///< of its terms
    bool grows = true;  ///< no term is negative or NaN
};

/// Adds the terms of so many rows, each in order. Several rows at once, since each addition waits for the one
/// before it.
template <int rows>
void add_rows(const Estimate& terms, Eigen::Index first, RowSum* sums) {
    const Eigen::Index cols = terms.value.cols();
    const double* values = terms.value.data() + first * cols;
    const double* errors = terms.error.data() + first * cols;
    std::array<RowSum, rows> own;
    std::copy_n(sums + first, rows, own.begin());
    for (Eigen::Index j = 0; j < cols; ++j) {
        for (int row = 0; row < rows; ++row) {
            const double term = values[row * cols + j];
            own[row].sum += term;
            own[row].error += errors[row * cols + j];
            own[row].grows &= term >= 0;
        }
    }
    std::copy_n(own.begin(), rows, sums + first);
}

void add_rows(const Estimate& terms, std::span<RowSum> sums) {
    constexpr int together = 4;
    Eigen::Index row = 0;
    for (; row + together <= std::ssize(sums); row += together) add_rows<together>(terms, row, sums.data());
    for (; row < std::ssize(sums); ++row) add_rows<1>(terms, row, sums.data());
}

/// Those columns of P that a lane adds up.
Estimate columns_of(const HeadCall& call, const Estimate& p, Eigen::Index lane) {
    std::vector<Eigen::Index> columns;
    for (Eigen::Index j = 0; j < p.value.cols(); ++j) {
        if (call.problem.l_lane(j) == lane) columns.push_back(j);
    }
    return {p.value(Eigen::all, columns), p.error(Eigen::all, columns)};
}

/// Bound of adding up probabilities. Their partial sums are taken from the front and from the back, and the
/// larger bound counts; sums by threads have smaller ones.
double addition_bound(double lambda, double start, std::span<const double> terms, const RowSum& row) {
    Roundings forward;
    Roundings backward;
    // Sums that only grow have one power of two from end to end, if they have it at both; those of long rows
    // hardly ever reach the next one.
    if (row.grows && leading_power(start) == leading_power(row.sum)) {
        forward.add(row.sum, double(terms.size()));
        backward = forward;
    } else {
        forward = roundings_of(start, terms.begin(), terms.end());
        backward = roundings_of(start, terms.rbegin(), terms.rend());
    }
    const double certain = u_f32 * std::max(forward.certain, backward.certain);
    const double likely = lambda * u_f32 * std::sqrt(std::max(forward.squares, backward.squares));
    return lambda > 0 && likely < certain ? likely : certain;
}

/// Keeps the end that is further up, and where it comes from.
void raise(MaxEnd& end, double score, double error, double reach, Eigen::Index key) {
    if (score + reach > end.value + end.reach) end = {score, error, reach, key};
}

}  // namespace

MaxInterval max_interval(const HeadCall& call, const Estimate& m_before, const Estimate& s,
                         Eigen::Index row) {
    const double conversion = gamma(max_roundings(call), u_f32);
    const double before = m_before.value(row, 0);
    const double before_error = m_before.error(row, 0);
    const double* scores = s.value.data() + row * s.value.cols();
    const double* errors = s.error.data() + row * s.error.cols();
    const RowExtremes extremes =
        vector_kernels().row_extremes({scores, std::size_t(s.value.cols())}, errors, conversion);
    MaxInterval max{before, {-infinity, 0, 0, m_key_before}, {-infinity, 0, 0, m_key_before}};
    // A NaN stays: nothing can be expected of this row.
    if (std::isnan(before) || std::isnan(extremes.most)) {
        max.most = before + extremes.most;
        return max;
    }
    // The sign of a zero must not depend on the order of the comparisons.
    max.most = std::max(before, extremes.most) + 0.0;
    // Mostly the row has seen a larger score before, and which key it is need not be known.
    const auto end = [&](double extreme, double sign) -> MaxEnd {
        for (Eigen::Index j = 0; extreme >= before + sign * before_error && j < s.value.cols(); ++j) {
            const double error = errors[j] + conversion * std::abs(scores[j]);
            if (scores[j] + sign * error == extreme && scores[j] > -infinity)
                return {scores[j], error, sign * error, j};
        }
        return {-infinity, 0, 0, m_key_before};
    };
    max.lower = end(extremes.lower, -1);
    max.upper = end(extremes.upper, 1);
    // A kernel rounds how far the maximum has risen, and compares that.
    if (call.units.m_stale_threshold > 0)
        max.lower.reach -= call.units.m_stale_threshold * (1 + gamma(4, u_f32));
    raise(max.lower, before, before_error, -before_error, m_key_before);
    raise(max.upper, before, before_error, before_error, m_key_before);
    return max;
}

Estimate row_max(const HeadCall& call, const Estimate& m_before, const Estimate& s) {
    Estimate m = m_before;
    for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
        const MaxInterval max = max_interval(call, m_before, s, i);
        m.value(i, 0) = max.most;
        if (std::isnan(max.most)) m.error(i, 0) = infinity;
        if (!std::isfinite(max.most)) continue;
        const auto& [lower, upper] = std::pair(max.lower, max.upper);
        if (call.units.m_stale_threshold > 0) {
            m.value(i, 0) = 0.5 * (lower.value + lower.reach + upper.value + upper.reach);
            m.error(i, 0) = 0.5 * (upper.value - lower.value + upper.reach - lower.reach) +
                            u_oracle * (std::abs(max.most) + call.units.m_stale_threshold);
        } else {
            m.error(i, 0) =
                std::max(upper.value - max.most + upper.reach, max.most - lower.value - lower.reach);
        }
    }
    return m;
}

Estimate probabilities(const HeadCall& call, const Estimate& s, const Estimate& m) {
    return exponentials(call, s, m);
}

Estimate cast_probabilities(const HeadCall& call, Estimate p, Dtype dtype) {
    return cast_scaled(call, std::move(p), dtype, call.units.p_scale, Overflow::saturate);
}

Estimate cast_scaled(const HeadCall& call, Estimate estimate, Dtype dtype, double scale, Overflow overflow) {
    // Exact values stay exact.
    if (dtype == Dtype::f32 || !call.bounds) return estimate;
    const double u = unit_roundoff(dtype);
    const double quantum = half_quantum(dtype) / scale;
    const double most = double(dtype_info(dtype).max_finite) / scale;
    for (Eigen::Index i = 0; i < estimate.value.size(); ++i) {
        double& value = estimate.value.data()[i];
        double& error = estimate.error.data()[i];
        // A masked cell is 0 before its cast and after it.
        if (value == 0 && error == 0) continue;
        // Beyond the range of its type a number is lost, and not rounded: what should be there stays
        // expected.
        const bool lost = overflow == Overflow::saturate && std::abs(value) > most;
        if (error == 0 && !lost) {
            value = double(decode(dtype, encode(dtype, float(value * scale), overflow))) / scale;
        } else {
            error += u * (std::abs(value) + error) + quantum;
        }
    }
    return estimate;
}

Estimate rescale_factor(const HeadCall& call, const Estimate& m_before, const Estimate& m) {
    const auto nothing_before = [&](Eigen::Index i) {
        return m_before.value(i, 0) == -infinity && !std::isnan(m.value(i, 0));
    };
    Estimate factor = exponentials(call, m_before, m);
    for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
        if (nothing_before(i)) factor.value(i, 0) = factor.error(i, 0) = 0;
    }
    return factor;
}

double row_sum_roundings(const HeadCall& call, double rescaled, double l) {
    const double unscaling = call.units.l_scale == call.units.p_scale ? 0 : gamma(2, u_f32);
    return u_f32 * std::abs(rescaled) + (u_f32 + unscaling) * std::abs(l);
}

Estimate row_sum(const HeadCall& call, const Estimate& l_before, const Estimate& factor, const Estimate& p) {
    const Eigen::Index lanes = l_before.value.cols();
    Estimate l = zeros(p.value.rows(), lanes);
    if (!call.bounds && lanes == 1) {
        for (Eigen::Index i = 0; i < p.value.rows(); ++i)
            l.value(i, 0) = l_before.value(i, 0) * factor.value(i, 0) + sum_of_row(p.value, i);
        return l;
    }
    std::vector<RowSum> rows(std::size_t(p.value.rows()));
    for (Eigen::Index lane = 0; lane < lanes; ++lane) {
        const Estimate own = lanes == 1 ? Estimate() : columns_of(call, p, lane);
        const Estimate& terms = lanes == 1 ? p : own;
        const auto start = [&](Eigen::Index i) { return l_before.value(i, lane) * factor.value(i, 0); };
        for (Eigen::Index i = 0; i < p.value.rows(); ++i) {
            const double start_error = l_before.error(i, lane) * (factor.value(i, 0) + factor.error(i, 0)) +
                                       std::abs(l_before.value(i, lane)) * factor.error(i, 0);
            rows[std::size_t(i)] = {start(i), start_error};
        }
        add_rows(terms, rows);
        for (Eigen::Index i = 0; i < p.value.rows(); ++i) {
            const RowSum& row = rows[std::size_t(i)];
            const std::span of_row(terms.value.data() + i * terms.value.cols(),
                                   std::size_t(terms.value.cols()));
            l.value(i, lane) = row.sum;
            l.error(i, lane) = addition_bound(call.rounding.lambda_of(Stage::l), start(i), of_row, row) +
                               row_sum_roundings(call, start(i), row.sum) + row.error +
                               u_oracle * std::abs(row.sum) + flush_to_zero;
        }
    }
    return l;
}

}  // namespace tilescope
