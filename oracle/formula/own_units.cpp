#include "oracle/formula/own_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/formula/budget.h"
#include "oracle/formula/row_max.h"

namespace tilescope {

namespace {

/// Of a sum of m and ln l: the logarithm, the conversion of either, and the addition.
double lse_rounding(double m, double l) {
    const double log_l = std::abs(std::log(l));
    return log_function_bound(log_l) + gamma(5, u_f32) * (std::abs(m) + log_l);
}

/// 0 of a sum that has begun with nothing: then there is nothing that it could be relative to.
double relative_error(const Estimate& l, Eigen::Index row) {
    return l.value(row, 0) == 0 || l.error(row, 0) == 0 ? 0 : l.error(row, 0) / l.value(row, 0);
}

/// What an element of acc over l is off by beside what acc is.
struct OwnError {
    double of_sums = 0;    ///< l after the tile, and before it
    double roundings = 0;  ///< of the product with l before, the reciprocal and its product
};

OwnError own_error(const HeadCall& call, double acc, const Normalisation& by, Eigen::Index row,
                   Eigen::Index col) {
    const Dtype kept = call.problem.dtype_acc;
    const double u = kept == Dtype::f32 ? u_f32 : unit_roundoff(kept);
    const double start = std::abs(by.acc_before.value(row, col)) * by.factor.value(row, 0);
    const double l = by.l.value(row, 0);
    const double parts = 2 * start + std::abs(acc);
    return {(parts * relative_error(by.l, row) + start * relative_error(by.l_before, row)) / l,
            gamma(5, u) * parts / l};
}

}  // namespace

bool has_own_units(const Units& units) {
    return units.m_from_lse || units.p_of_tile_max || units.p_normalised || units.acc_normalised;
}

Estimate tile_max(const HeadCall& call, const Estimate& s) {
    Estimate nothing = zeros(s.value.rows(), 1);
    nothing.value.setConstant(-inf);
    if (call.units.m_stale_threshold == 0 && call.units.m_offset == 0) return row_max(call, nothing, s);
    HeadCall exact = call;
    exact.units.m_stale_threshold = exact.units.m_offset = 0;
    return row_max(exact, nothing, s);
}

Estimate whole_sum(const HeadCall& call, const Estimate& l) {
    if (l.value.cols() == 1) return l;
    const double adding = gamma(double(call.problem.l_lanes), u_f32);
    Estimate sum = zeros(l.value.rows(), 1);
    for (Eigen::Index i = 0; i < l.value.rows(); ++i) {
        sum.value(i, 0) = sum_of_row(l.value, i);
        sum.error(i, 0) = sum_of_row(l.error, i) + adding * std::abs(sum.value(i, 0));
    }
    return sum;
}

Estimate carried_lse(const HeadCall& call, const RunningState& before) {
    const Estimate l = whole_sum(call, before.l);
    Estimate lse = before.m;
    for (Eigen::Index i = 0; i < l.value.rows(); ++i) {
        if (l.value(i, 0) == 0 || !std::isfinite(before.m.value(i, 0))) continue;
        lse.value(i, 0) += std::log(l.value(i, 0));
        lse.error(i, 0) += relative_error(l, i) + lse_rounding(before.m.value(i, 0), l.value(i, 0));
    }
    return lse;
}

void add_carried_error(const HeadCall& call, const RunningState& before, Estimate& factor) {
    const Estimate l = whole_sum(call, before.l);
    for (Eigen::Index i = 0; i < l.value.rows(); ++i) {
        if (l.value(i, 0) == 0 || factor.value(i, 0) == 0) continue;
        factor.error(i, 0) +=
            factor.value(i, 0) * std::expm1(lse_rounding(before.m.value(i, 0), l.value(i, 0)));
    }
}

Estimate times_rows(Estimate of, const Estimate& factor) {
    for (Eigen::Index i = 0; i < of.value.rows(); ++i) {
        const double by = factor.value(i, 0);
        const double by_error = factor.error(i, 0);
        for (Eigen::Index j = 0; j < of.value.cols(); ++j) {
            of.error(i, j) = of.error(i, j) * (by + by_error) + std::abs(of.value(i, j)) * by_error;
            of.value(i, j) *= by;
        }
    }
    return of;
}

Estimate over_sum(const Estimate& factor, const Estimate& l) {
    Estimate over = factor;
    for (Eigen::Index i = 0; i < over.value.rows(); ++i) {
        const double sum = l.value(i, 0);
        if (sum == 0) {
            over.value(i, 0) = over.error(i, 0) = 0;
            continue;
        }
        over.value(i, 0) /= sum;
        over.error(i, 0) =
            over.error(i, 0) / sum + over.value(i, 0) * (relative_error(l, i) + gamma(3, u_f32));
    }
    return over;
}

Estimate normalised(const HeadCall& call, const Estimate& acc, const Normalisation& by) {
    Estimate o = acc;
    for (Eigen::Index i = 0; i < o.value.rows(); ++i) {
        const double l = by.l.value(i, 0);
        for (Eigen::Index j = 0; j < o.value.cols(); ++j) {
            if (l == 0) {
                o.value(i, j) = o.error(i, j) = 0;
                continue;
            }
            const OwnError own = own_error(call, acc.value(i, j), by, i, j);
            o.value(i, j) /= l;
            o.error(i, j) = o.error(i, j) / l + own.of_sums + own.roundings;
        }
    }
    return o;
}

BudgetTerms normalised_terms(const HeadCall& call, double acc, const Normalisation& by, BudgetTerms of_acc,
                             Eigen::Index row, Eigen::Index col) {
    const double l = by.l.value(row, 0);
    if (l == 0) return {};
    const OwnError own = own_error(call, acc, by, row, col);
    of_acc.scale(1 / l, in_formula(1 / l) + " (1 / l)");
    of_acc.add("l, not dumped",
               fmt::format("error over l: {:.3g} after, {:.3g} before", relative_error(by.l, row),
                           relative_error(by.l_before, row)),
               own.of_sums, "from l");
    of_acc.add("normalising", "five roundings of both parts", own.roundings, "Higham, lemma 3.1");
    return of_acc;
}

}  // namespace tilescope
