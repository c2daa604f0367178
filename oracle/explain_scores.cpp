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
void bias_terms(const TileInputs& in, double s, Eigen::Index row, Eigen::Index col, BudgetTerms& terms) {
    const Estimate zero{one_by_one(0), one_by_one(0)};
    const Estimate bias = add_bias(in.call, in.first_row + row, in.first_key + col, zero);
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

bool is_hidden(const TileInputs& in, Eigen::Index row, Eigen::Index col) {
    return !visible_keys(in.call.problem, in.first_row + row).contains(in.first_key + col);
}

BudgetTerms scaled_score_terms(const TileInputs& in, const Estimate& s, Eigen::Index row, Eigen::Index col) {
    const HeadCall& call = in.call;
    const auto& [q, k, v] = in.operands;
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

BudgetTerms score_terms(const TileInputs& in, Eigen::Index row, Eigen::Index col) {
    const HeadCall& call = in.call;
    const Units& u = call.units;
    Estimate s = scaled_scores(call, in.operands.q, in.operands.k);
    BudgetTerms terms = scaled_score_terms(in, s, row, col);
    if (call.capped() && u.s_capped) {
        cap_terms(call, s.value(row, col), terms);
        s = cap_scores(call, s);
    }
    const bool cap_missing = call.capped() && !u.s_capped;
    if (call.biased() && u.s_biased && !cap_missing) bias_terms(in, s.value(row, col), row, col, terms);
    if (u.s_masked && is_hidden(in, row, col)) terms.clear();
    return terms;
}

BudgetTerms finishing_terms(const TileInputs& in, Eigen::Index row, Eigen::Index col) {
    const HeadCall& call = in.call;
    const Units& u = call.units;
    const bool cap_missing = call.capped() && !u.s_capped;
    const bool bias_missing = call.biased() && (!u.s_biased || cap_missing);
    Estimate s{one_by_one(in.dumped_s->value(row, col)), one_by_one(in.dumped_s->error(row, col))};
    BudgetTerms terms;
    terms.add("s, not dumped", in_formula(s.error(0, 0)), s.error(0, 0), "from s");
    if (cap_missing) {
        cap_terms(call, s.value(0, 0), terms);
        s = cap_scores(call, s);
    }
    if (bias_missing) bias_terms(in, s.value(0, 0), row, col, terms);
    if ((!u.s_masked || cap_missing) && is_hidden(in, row, col)) terms.clear();
    return terms;
}

namespace {

/// What one end of the maximum is off by on its own.
BudgetTerms end_terms(const TileInputs& in, Eigen::Index row, const MaxEnd& end) {
    const HeadCall& call = in.call;
    BudgetTerms terms;
    if (end.key == m_key_before) {
        const bool sink = in.begins && call.problem.sink == AttentionSink::first;
        terms.add(sink ? "sink in the units of m" : "m before, not dumped",
                  sink ? roundings(3, std::abs(call.sink)) : in_formula(end.error), end.error,
                  sink ? "Higham, lemma 3.1" : "from m");
        return terms;
    }
    const double score_error = in.s->error(row, end.key);
    if (score_error > 0) terms.append(finishing_terms(in, row, end.key));
    const double conversion = part_of(end.error, score_error);
    const double count = conversion > 0 ? rounding_count(conversion / std::abs(end.value)) : 0;
    terms.add("conversion of m", roundings(count, std::abs(end.value)), conversion, "Higham, lemma 3.1");
    return terms;
}

}  // namespace

BudgetTerms max_terms(const TileInputs& in, Eigen::Index row) {
    const HeadCall& call = in.call;
    const double threshold = call.units.m_stale_threshold;
    const MaxInterval max = max_interval(call, in.before->m, *in.s, row);
    if (!std::isfinite(max.most)) return end_terms(in, row, {max.most, in.before->m.error(row, 0)});

    BudgetTerms upper = end_terms(in, row, max.upper);
    BudgetTerms lower = end_terms(in, row, max.lower);
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
