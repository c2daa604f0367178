// The terms of p, l and acc.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "oracle/budget.h"
#include "oracle/explain_terms.h"
#include "oracle/products.h"
#include "oracle/softmax.h"

namespace tilescope {

namespace {

/// One row of an estimate, with or without its error.
Estimate row_of(const Estimate& estimate, Eigen::Index row) {
    return {estimate.value.row(row), estimate.error.row(row)};
}

Estimate exactly(const Estimate& estimate) {
    return {estimate.value, Matrix::Zero(estimate.value.rows(), estimate.value.cols())};
}

/// The call with an exponential and a product with p_scale that err by nothing.
HeadCall with_exact_exponential(const HeadCall& call) {
    HeadCall exact = call;
    exact.units.p_exp_error = std::numeric_limits<double>::min();
    exact.units.p_scale = 1;
    return exact;
}

std::string exponential_formula(const HeadCall& call, double p, double distance) {
    const ExpFunctionBound bound = exp_function_bound(call.units);
    if (bound.per_argument == 0) return fmt::format("{:.3g} * {:.3g}", p, bound.constant);
    return fmt::format("{:.3g} * ({:.3g} + {:.3g} * |s - m| {:.3g})", p, bound.constant, bound.per_argument,
                       distance);
}

/// What p inherits from its score, or what finishing the dumped score adds.
void add_score_error(const TileInputs& in, Eigen::Index row, Eigen::Index col, double value,
                     BudgetTerms& terms) {
    if (value == 0) return;
    BudgetTerms of_score = finishing_terms(in, row, col);
    const double by = value / of_score.total();
    of_score.scale(by, fmt::format("{:.3g} (p)", by));
    terms.append(of_score);
}

/// The cast of p, of at most `magnitude`.
void add_cast(const HeadCall& call, double magnitude, BudgetTerms& terms) {
    const Dtype cast = call.units.p_cast;
    if (cast == Dtype::f32) return;
    const double quantum = half_quantum(cast) / call.units.p_scale;
    terms.add(fmt::format("cast of p to {}", dtype_info(cast).name),
              fmt::format("{:.3g} * {:.3g} + {:.3g}", unit_roundoff(cast), magnitude, quantum),
              unit_roundoff(cast) * magnitude + quantum, "IEEE 754");
}

/// Rounded sums of one lane of l: the certain bound, or with `lambda` the probable one.
double lane_rounding(const HeadCall& call, double lambda, const Estimate& before, const Estimate& factor,
                     const Estimate& p, Eigen::Index lane, double other) {
    HeadCall with_lambda = call;
    with_lambda.rounding.lambda[static_cast<std::size_t>(Stage::l)] = lambda;
    return row_sum(with_lambda, exactly(before), exactly(factor), exactly(p)).error(0, lane) - other;
}

void add_lane_terms(const HeadCall& call, const Estimate& before, const Estimate& factor, const Estimate& p,
                    Eigen::Index lane, double l, BudgetTerms& terms) {
    const double rescaled = before.value(0, lane) * factor.value(0, 0);
    const double after = row_sum_roundings(call, rescaled, l);
    const double other = after + u_oracle * std::abs(l) + flush_to_zero;
    const double lambda = call.rounding.lambda_of(Stage::l);
    const double certain = lane_rounding(call, 0, before, factor, p, lane, other);
    // With a lambda of 1 the root is never larger than the sum.
    const double root = lane_rounding(call, 1, before, factor, p, lane, other);
    BudgetTerm certain_term{"sum of P, certain",
                            fmt::format("{:.3g} * {:.3g}, sum of partial sums", u_f32, certain / u_f32),
                            part_of(certain + other, other), "Higham, section 3.1"};
    BudgetTerm probable_term{
        "sum of P, probable",
        fmt::format("lambda {:.3g} * {:.3g} * {:.3g}, root of their squares", lambda, u_f32, root / u_f32),
        lambda * root, "Higham and Mary, thm 2.4"};
    // The one that the judged bound holds.
    const double rounding = lane_rounding(call, lambda, before, factor, p, lane, other);
    if (std::abs(rounding - probable_term.value) < std::abs(rounding - certain)) {
        terms.add_alternatives(std::move(probable_term), std::move(certain_term));
    } else {
        terms.add_alternatives(std::move(certain_term), std::move(probable_term));
    }
    terms.add("rescaling, adding the tile",
              fmt::format("roundings of {:.3g} and {:.3g}", std::abs(rescaled), std::abs(l)), after,
              "IEEE 754");
    terms.add_own_error(u_oracle * std::abs(l));
    terms.add_flush_to_zero(flush_to_zero);
}

/// What p brings along where it is not the dump's own.
std::string name_of_p(const TileInputs& in) {
    return in.dumps_p ? "p before its cast, not dumped" : "p, not dumped";
}

void add_rescaling_terms(const Estimate& factor, double before, double before_error, const char* name,
                         const char* source, BudgetTerms& terms) {
    const double by = factor.value(0, 0);
    const double by_error = factor.error(0, 0);
    terms.add(fmt::format("{} before, not dumped", name), fmt::format("{:.3g} * {:.3g}", before_error, by),
              before_error * (by + by_error), source);
    terms.add("factor exp(m before - m)", fmt::format("{:.3g} * {:.3g}", std::abs(before), by_error),
              std::abs(before) * by_error, "as p, CUDA guide");
}

/// The loop of accumulate() for V that holds NaN or infinities somewhere.
void add_guarded_product_terms(const TileInputs& in, const Matrix& start, Eigen::Index row, Eigen::Index col,
                               double acc, BudgetTerms& terms) {
    const AccumulationBound bound =
        accumulation_bound(in.call.rounding, Stage::acc, in.call.units.acc_accumulation);
    const Operand& v = in.operands.v;
    double sum = start(row, col);
    double partial_sums = 0;
    double inherited = 0;
    for (Eigen::Index j = 0; j < v.value.rows(); ++j) {
        const double p = in.p_operand->value(row, j);
        if (in.s->value(row, j) == -std::numeric_limits<double>::infinity() && p == 0) continue;
        sum += p * v.value(j, col);
        partial_sums += std::abs(sum) + std::abs(p * v.value(j, col));
        inherited += in.p_operand->error(row, j) * std::abs(v.value(j, col));
    }
    const double unit = bound.per_partial_sum + bound.operand;
    terms.add("sum of products, certain",
              fmt::format("{:.3g} * {:.3g}, sum of |partial sums| and |terms|", unit, partial_sums),
              unit * partial_sums, source_of(in.call.units.acc_accumulation));
    terms.add("p, not dumped", fmt::format("{:.3g}, sum of error * |v|", inherited), inherited, "from p");
    terms.add("v not dumped, dequantised", fmt::format("{:.3g} * {:.3g}", v.error, std::abs(acc)),
              v.error * std::abs(acc), "from v");
    terms.add_flush_to_zero(bound.underflow * product_unit(in.call, Stage::acc) * double(v.value.rows()));
}

void add_weighted_product_terms(const TileInputs& in, const Matrix& start, Eigen::Index row, Eigen::Index col,
                                BudgetTerms& terms) {
    const HeadCall& call = in.call;
    const Operand& v = in.operands.v;
    const Estimate& p = *in.p_operand;
    add_product_terms(call, Stage::acc, call.units.acc_accumulation, p.value, v.value, false, start, 1, row,
                      col, terms);
    const Eigen::RowVectorXd magnitude = v.value.col(col).cwiseAbs().transpose();
    const double of_p = p.error.row(row).dot(magnitude);
    const double of_v = (p.value.row(row).cwiseAbs() + p.error.row(row)).dot(magnitude);
    terms.add("p, not dumped", fmt::format("{:.3g}, sum of error * |v|", of_p), of_p, "from p");
    terms.add("v not dumped, dequantised", fmt::format("{:.3g} * {:.3g}, sum of p * |v|", v.error, of_v),
              v.error * of_v, "from v");
}

}  // namespace

BudgetTerms probability_terms(const TileInputs& in, Eigen::Index row, Eigen::Index col) {
    const HeadCall& call = in.call;
    // The whole row: where one of its bounds is wide, all of them are computed that way.
    const Estimate s = row_of(*in.s, row);
    const Estimate m = row_of(*in.m, row);
    const auto bound = [&](const HeadCall& of, const Estimate& scores, const Estimate& max) {
        return probabilities(of, scores, max).error(0, col);
    };
    HeadCall unscaled = call;
    unscaled.units.p_scale = 1;
    const HeadCall exact = with_exact_exponential(call);
    const double all = bound(call, s, m);
    const double without_scale = bound(unscaled, s, m);
    const double without_function = bound(exact, s, m);
    const double without_m = bound(exact, s, exactly(m));
    const double without_s = bound(exact, exactly(s), exactly(m));
    BudgetTerms terms;
    // Masked: exactly 0.
    if (all == 0) return terms;

    const double p = probabilities(call, s, m).value(0, col);
    const double own = p * u_oracle;
    const double difference = std::abs(s.value(0, col) - m.value(0, 0));
    const double magnitude = std::abs(s.value(0, col)) + std::abs(m.value(0, 0));
    const ExpArgumentBound argument = exp_argument_bound(call);
    const bool backward = call.problem.direction == Direction::backward;
    add_score_error(in, row, col, part_of(without_m, without_s), terms);
    terms.add("m, not dumped", fmt::format("{:.3g} * {:.3g}", p, m.error(0, 0)),
              part_of(without_function, without_m), "from m");
    terms.add(backward ? "argument s - lse" : "argument s - m",
              fmt::format("{:.3g} * ({:.3g} * {:.3g} + {:.3g} * {:.3g})", p, argument.difference, difference,
                          argument.terms, magnitude),
              part_of(without_s, own + flush_to_zero), "Higham, lemma 3.1");
    terms.add("exponential", exponential_formula(call, p, difference),
              part_of(without_scale, without_function),
              call.units.p_exp_error > 0 ? "declared exp_error" : "CUDA guide, math");
    terms.add("scale of p",
              fmt::format("{:.3g}, for a product or ln {:.3g} in the exponent", part_of(all, without_scale),
                          call.units.p_scale),
              part_of(all, without_scale), "IEEE 754");
    terms.add_own_error(own);
    terms.add_flush_to_zero(flush_to_zero);
    add_cast(call, p + all, terms);
    return terms;
}

BudgetTerms sum_terms(const TileInputs& in, Eigen::Index row, Eigen::Index lane) {
    const HeadCall& call = in.call;
    const Estimate before = row_of(in.before->l, row);
    const Estimate factor = row_of(*in.factor, row);
    const Estimate p = row_of(in.p_in_l(), row);
    const Estimate exact = row_sum(call, exactly(before), exactly(factor), exactly(p));
    BudgetTerms terms;
    add_lane_terms(call, before, factor, p, lane, exact.value(0, lane), terms);
    const Estimate with_p = row_sum(call, exactly(before), exactly(factor), p);
    const double inherited = part_of(with_p.error(0, lane), exact.error(0, lane));
    terms.add(name_of_p(in), fmt::format("{:.3g}, sum of their errors", inherited), inherited, "from p");
    add_rescaling_terms(factor, before.value(0, lane), before.error(0, lane), "l", "from l", terms);
    return terms;
}

BudgetTerms accumulator_terms(const TileInputs& in, Eigen::Index row, Eigen::Index col) {
    const HeadCall& call = in.call;
    const Operand& v = in.operands.v;
    const Matrix start = in.factor->value.col(0).asDiagonal() * in.before->acc.value;
    const Estimate acc = expected_of(Stage::acc, in);
    const double value = acc.value(row, col);
    BudgetTerms terms;
    if (all_finite(v.value) && all_finite(start) && all_finite(in.p_operand->value)) {
        add_weighted_product_terms(in, start, row, col, terms);
    } else {
        add_guarded_product_terms(in, start, row, col, value, terms);
    }
    const bool half = call.problem.dtype_acc == Dtype::f16;
    const AccumulatorRoundings roundings = accumulator_roundings(call);
    const double rescaled = std::abs(start(row, col));
    terms.add(half ? "rescaling, adding, in float16" : "rescaling, adding the tile",
              fmt::format("{:.3g} * {:.3g} + {:.3g} * {:.3g}", roundings.of_rescaled, rescaled,
                          roundings.of_sum, std::abs(value)),
              roundings.of_rescaled * rescaled + roundings.of_sum * std::abs(value), "IEEE 754");
    if (half) {
        terms.add("acc in float16 near zero", fmt::format("{:.3g}", roundings.near_zero), roundings.near_zero,
                  "IEEE 754");
    } else {
        terms.add_flush_to_zero(roundings.near_zero);
    }
    const double before_error = in.before->acc.error(row, col);
    add_rescaling_terms(row_of(*in.factor, row), std::abs(in.before->acc.value(row, col)), before_error,
                        "acc", "from acc", terms);
    return terms;
}

}  // namespace tilescope
