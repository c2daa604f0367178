// The terms of s and m.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dump/semantics.h"
#include "oracle/budget.h"
#include "oracle/explain_terms.h"
#include "oracle/softmax.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Matrix one_by_one(double value) {
    return Matrix::Constant(1, 1, value);
}

/// The terms of cap_scores() for a score `x`, after those of x itself.
void cap_terms(const HeadCall& call, double x, BudgetTerms& terms) {
    const double cap = call.problem.logits_soft_cap;
    const TanhFunction function = call.units.s_tanh;
    const double division = gamma(2, u_f32) * std::abs(x);
    terms.add("division by the soft cap", roundings(2, std::abs(x)), division, "Higham, lemma 3.1");
    const double nearest = std::tanh(std::max(std::abs(x) - terms.total(), 0.0) / cap);
    const double slope = 1 - nearest * nearest;
    terms.scale(slope, fmt::format("{:.3g} (1 - tanh^2)", slope));
    const double capped = cap * std::abs(std::tanh(x / cap));
    const bool approximate = function == TanhFunction::tanh_approx;
    terms.add(approximate ? "tanh.approx of the soft cap" : "tanhf of the soft cap",
              fmt::format("{:.3g} * {:.3g}", tanh_function_bound(function), capped),
              tanh_function_bound(function) * capped,
              approximate ? "PTX ISA, tanh.approx" : "CUDA guide, math");
    terms.add("product with the soft cap", roundings(2, capped), gamma(2, u_f32) * capped,
              "Higham, lemma 3.1");
    terms.add_flush_to_zero(flush_to_zero * (1 + cap));
}

/// The terms of add_bias() for a score `s`, after those of s itself.
void bias_terms(const TileParts& parts, double s, Eigen::Index row, Eigen::Index col, BudgetTerms& terms) {
    const Estimate zero{one_by_one(0), one_by_one(0)};
    const Estimate bias = add_bias(parts.call, parts.first_row + row, parts.first_key + col, zero);
    if (s + bias.value(0, 0) == -infinity) {
        terms.clear();
        return;
    }
    const double of_bias = bias.error(0, 0) - flush_to_zero;
    terms.add("ALiBi and bias", roundings(5, of_bias / gamma(5, u_f32)), of_bias, "Higham, lemma 3.1");
    terms.add("adding the bias", roundings(2, std::abs(s)), gamma(2, u_f32) * std::abs(s),
              "Higham, lemma 3.1");
    terms.add_flush_to_zero(flush_to_zero);
}

bool is_hidden(const TileParts& parts, Eigen::Index row, Eigen::Index col) {
    return !visible_keys(parts.call.problem, parts.first_row + row).contains(parts.first_key + col);
}

BudgetTerms scaled_score_terms(const TileParts& parts, const Estimate& s, Eigen::Index row,
                               Eigen::Index col) {
    const HeadCall& call = parts.call;
    const auto& [q, k, v] = parts.operands;
    const double scale = call.problem.sm_scale;
    BudgetTerms terms;
    add_product_terms(call, Stage::s, call.units.s_accumulation, q.value, k.value, true,
                      Matrix::Zero(q.value.rows(), k.value.rows()), scale, row, col, terms);
    const double magnitude = std::abs(s.value(row, col));
    if (q.error + k.error > 0) {
        const double products = q.value.row(row).cwiseAbs().dot(k.value.row(col).cwiseAbs()) * scale;
        const double relative = q.error + k.error + q.error * k.error;
        terms.add("q, k not dumped, dequantised",
                  fmt::format("{:.3g} * {:.3g}, sum of |products|", relative, products), relative * products,
                  "from q and k");
    }
    // What is left is gamma(n) of the score.
    const double left = part_of(s.error(row, col), terms.total());
    const double count = left > 0 ? rounding_count(left / magnitude) : 0;
    terms.add("sm_scale and other factors", roundings(count, magnitude), gamma(count, u_f32) * magnitude,
              "Higham, lemma 3.1");
    return terms;
}

}  // namespace

BudgetTerms score_terms(const TileParts& parts, Eigen::Index row, Eigen::Index col) {
    const HeadCall& call = parts.call;
    const Units& u = call.units;
    Estimate s = scaled_scores(call, parts.operands.q, parts.operands.k);
    BudgetTerms terms = scaled_score_terms(parts, s, row, col);
    if (call.capped() && u.s_capped) {
        cap_terms(call, s.value(row, col), terms);
        s = cap_scores(call, s);
    }
    const bool cap_missing = call.capped() && !u.s_capped;
    if (call.biased() && u.s_biased && !cap_missing) bias_terms(parts, s.value(row, col), row, col, terms);
    if (u.s_masked && is_hidden(parts, row, col)) terms.clear();
    return terms;
}

BudgetTerms finishing_terms(const TileParts& parts, Eigen::Index row, Eigen::Index col) {
    const HeadCall& call = parts.call;
    const Units& u = call.units;
    const bool cap_missing = call.capped() && !u.s_capped;
    const bool bias_missing = call.biased() && (!u.s_biased || cap_missing);
    Estimate s{one_by_one(parts.dumped_s.value(row, col)), one_by_one(parts.dumped_s.error(row, col))};
    BudgetTerms terms;
    terms.add("s, not dumped", in_formula(s.error(0, 0)), s.error(0, 0), "from s");
    if (cap_missing) {
        cap_terms(call, s.value(0, 0), terms);
        s = cap_scores(call, s);
    }
    if (bias_missing) bias_terms(parts, s.value(0, 0), row, col, terms);
    if ((!u.s_masked || cap_missing) && is_hidden(parts, row, col)) terms.clear();
    return terms;
}

BudgetTerms max_terms(const TileParts& parts, Eigen::Index row) {
    const HeadCall& call = parts.call;
    const Estimate before{parts.before.m.value.row(row), parts.before.m.error.row(row)};
    const Estimate s{parts.s.value.row(row), parts.s.error.row(row)};
    // Without errors and without a threshold nothing is left but the conversion.
    const Estimate exact_before{before.value, one_by_one(0)};
    const Estimate exact_s{s.value, Matrix::Zero(1, s.value.cols())};
    HeadCall never_stale = call;
    never_stale.units.m_stale_threshold = 0;
    const Estimate m = row_max(never_stale, exact_before, exact_s);
    const double most = m.value(0, 0);
    const double conversion = std::isfinite(most) ? m.error(0, 0) : 0;

    Eigen::Index worst = 0;
    double s_error = 0;
    for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
        if (s.value(0, j) == -infinity || s.error(0, j) <= s_error) continue;
        s_error = s.error(0, j);
        worst = j;
    }
    BudgetTerms terms;
    if (before.error(0, 0) > s_error + conversion || !std::isfinite(most)) {
        const double error = before.error(0, 0);
        const bool sink = parts.begins && call.problem.sink == AttentionSink::first;
        terms.add(sink ? "sink in the units of m" : "m before, not dumped",
                  sink ? roundings(3, std::abs(call.sink)) : in_formula(error), error,
                  sink ? "Higham, lemma 3.1" : "from m");
    } else {
        if (s_error > 0) terms.append(finishing_terms(parts, row, worst));
        const double count = conversion > 0 ? rounding_count(conversion / std::abs(most)) : 0;
        terms.add("conversion of m", roundings(count, std::abs(most)), conversion, "Higham, lemma 3.1");
    }
    if (call.units.m_stale_threshold > 0 && std::isfinite(most)) {
        const double lag = part_of(row_max(call, exact_before, exact_s).error(0, 0), conversion);
        terms.add("m may stay behind", fmt::format("half of up to {:.6g} below {:.6g}", 2 * lag, most), lag,
                  "declared threshold");
    }
    return terms;
}

}  // namespace tilescope
