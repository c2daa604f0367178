#include "oracle/formula/row_max.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/formula/budget.h"
#include "oracle/formula/products.h"

namespace tilescope {

namespace {

/// MaxEnd::key of an end that comes from m before the tile, and not from a score.
constexpr Eigen::Index m_key_before = -1;

/// One end of what a running maximum may be: value + reach.
struct MaxEnd {
    double value = 0;                 ///< a score, or m before the tile
    double error = 0;                 ///< its own, with its conversion to the units of m
    double reach = 0;                 ///< from the value to the end
    Eigen::Index key = m_key_before;  ///< column of the score
};

/// What one row's maximum after the tile may be, natural units: from the maximum of score - error to the
/// maximum of score + error. So a score far below the others does not widen it, however large its error is.
struct MaxInterval {
    double most = 0;  ///< the maximum itself; NaN where a score is
    MaxEnd lower;     ///< where m may stay behind, by as much below
    MaxEnd upper;
};

/// Roundings of turning a score into the units of m.
double max_roundings(const HeadCall& call) {
    const Units& u = call.units;
    const double products = std::max(scale_roundings(call), call.capped() ? 3.0 : 1.0);
    const double scaling = u.s_scaled == u.m_scaled ? 0 : products;
    return scaling + (u.s_log_base == u.m_log_base ? 0 : 2);
}

/// A number that is added to scores before their maximum: its own rounding, a factor and a product into the units of m,
/// and the sum's.
double offset_error(const HeadCall& call, double sum) {
    const double offset = std::abs(call.units.m_offset);
    return offset == 0 ? 0 : gamma(3, u_f32) * offset + u_f32 * std::abs(sum);
}

/// One row of scores as the maximum takes them.
Estimate with_offset(const HeadCall& call, const Estimate& s, Eigen::Index row) {
    Estimate sums{s.value.row(row), s.error.row(row)};
    const double conversion = gamma(max_roundings(call), u_f32);
    for (Eigen::Index j = 0; j < sums.value.cols(); ++j) {
        double& sum = sums.value(0, j);
        if (!std::isfinite(sum)) continue;
        sums.error(0, j) += conversion * std::abs(sum);
        sum += call.units.m_offset;
        sums.error(0, j) += offset_error(call, sum);
    }
    return sums;
}

/// Keeps the end that is further up, and where it comes from.
void raise(MaxEnd& end, double score, double error, double reach, Eigen::Index key) {
    if (score + reach > end.value + end.reach) end = {score, error, reach, key};
}

MaxInterval max_interval(const HeadCall& call, const Estimate& m_before, const Estimate& s,
                         Eigen::Index row) {
    const bool shifted = call.units.m_offset != 0;
    const Estimate sums = shifted ? with_offset(call, s, row) : Estimate();
    const double conversion = shifted ? 0 : gamma(max_roundings(call), u_f32);
    const double before = m_before.value(row, 0);
    const double before_error = m_before.error(row, 0);
    const double* scores = shifted ? sums.value.data() : s.value.data() + row * s.value.cols();
    const double* errors = shifted ? sums.error.data() : s.error.data() + row * s.error.cols();
    const RowExtremes extremes =
        vector_kernels().row_extremes({scores, std::size_t(s.value.cols())}, errors, conversion);
    MaxInterval max{before, {-inf, 0, 0, m_key_before}, {-inf, 0, 0, m_key_before}};
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
            if (scores[j] + sign * error == extreme && scores[j] > -inf)
                return {scores[j], error, sign * error, j};
        }
        return {-inf, 0, 0, m_key_before};
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

/// The score of one end, or m before, and what it is off by on its own.
BudgetTerms end_terms(const HeadCall& call, const MaxEnd& end, double score_error, bool begins,
                      const std::function<BudgetTerms(Eigen::Index key)>& of_score) {
    BudgetTerms terms;
    if (end.key == m_key_before) {
        const bool sink = begins && call.problem.sink == AttentionSink::first;
        if (call.units.m_from_lse) {
            terms.add("lse before", "errors of m and l, logarithm, roundings", end.error,
                      "CUDA guide, Higham");
            return terms;
        }
        terms.add(sink ? "sink in the units of m" : "m before, not dumped",
                  sink ? roundings(3, std::abs(call.sink)) : in_formula(end.error), end.error,
                  sink ? "Higham, lemma 3.1" : "from m");
        return terms;
    }
    if (score_error > 0) terms.append(of_score(end.key));
    const double of_offset = offset_error(call, end.value);
    const double score = std::abs(end.value - call.units.m_offset);
    terms.add("conversion of m", roundings(max_roundings(call), score),
              part_of(end.error - of_offset, score_error), "Higham, lemma 3.1");
    terms.add("offset of m", roundings(3, std::abs(call.units.m_offset)) + " and the sum's", of_offset,
              "Higham, lemma 3.1");
    return terms;
}

}  // namespace

Estimate row_max(const HeadCall& call, const Estimate& m_before, const Estimate& s) {
    Estimate m = m_before;
    for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
        const MaxInterval max = max_interval(call, m_before, s, i);
        m.value(i, 0) = max.most;
        if (std::isnan(max.most)) m.error(i, 0) = inf;
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

BudgetTerms max_terms(const HeadCall& call, const Estimate& m_before, const Estimate& s, Eigen::Index row,
                      bool begins, const std::function<BudgetTerms(Eigen::Index key)>& of_score) {
    const double threshold = call.units.m_stale_threshold;
    const MaxInterval max = max_interval(call, m_before, s, row);
    const auto terms_of = [&](const MaxEnd& end) {
        return end_terms(call, end, end.key == m_key_before ? 0 : s.error(row, end.key), begins, of_score);
    };
    if (!std::isfinite(max.most)) return terms_of({max.most, m_before.error(row, 0)});

    BudgetTerms upper = terms_of(max.upper);
    BudgetTerms lower = terms_of(max.lower);
    // From the one score, or m before, to the other.
    const double between = max.upper.value - max.lower.value - (max.lower.reach + max.lower.error);
    if (threshold > 0) {
        const double share = between < 0 ? 1 + between / max.upper.error : 1;
        upper.scale(share / 2, fmt::format("{:.3g}", share / 2));
        lower.scale(0.5, "1/2");
        upper.append(lower);
        const double lag = std::max(between, 0.0) / 2;
        upper.add("m may stay behind", fmt::format("half of up to {:.6g} below {:.6g}", 2 * lag, max.most),
                  lag, "declared threshold");
        upper.add_own_error(u_oracle * (std::abs(max.most) + threshold));
        return upper;
    }
    const double up = max.upper.value + max.upper.error - max.most;
    const double away = max.most - max.lower.value;
    if (up > away + max.lower.error) {
        // Of a score below the maximum counts what its error reaches beyond it.
        upper.scale(up / max.upper.error, fmt::format("{:.3g} (beyond the maximum)", up / max.upper.error));
        return upper;
    }
    lower.add("distance of that score to the maximum", in_formula(away), away, "");
    return lower;
}

}  // namespace tilescope
