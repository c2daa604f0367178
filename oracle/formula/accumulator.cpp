#include "oracle/formula/accumulator.h"

#include <fmt/format.h>

#include <cmath>

#include "oracle/formula/budget.h"
#include "oracle/formula/products.h"
#include "oracle/formula/row_sum.h"

namespace tilescope {

namespace {

/// Roundings beside those of the sum p v.
struct AccumulatorRoundings {
    double of_rescaled = 0;  ///< relative to the rescaled accumulator
    double of_sum = 0;       ///< relative to the result
    double near_zero = 0;    ///< absolute
};

bool is_narrow(const HeadCall& call) {
    return call.problem.dtype_acc != Dtype::f32;
}

AccumulatorRoundings accumulator_roundings(const HeadCall& call) {
    const Units& units = call.units;
    const Dtype kept = call.problem.dtype_acc;
    const double u = is_narrow(call) ? unit_roundoff(kept) : u_f32;
    const bool is_scaled =
        units.acc_scale != units.p_scale ||
        (!units.v_dequantised && units.acc_dequantised && units.p_descale_v == DescaleInP::none);
    const double scaling = is_scaled ? gamma(3, u) : 0;
    const double quantum = is_narrow(call) ? 2 * half_quantum(kept) : flush_to_zero;
    // A narrow accumulator is multiplied with a factor of its own type.
    const double factor = is_narrow(call) ? u : 0;
    return {u + factor + scaling, u + scaling, quantum * product_unit(call, Stage::acc)};
}

Matrix rescaled(const AccumulatorInputs& in) {
    return in.factor.value.col(0).asDiagonal() * in.before.value;
}

bool is_finite(const AccumulatorInputs& in, const Matrix& start) {
    return all_finite(in.v.value) && all_finite(start) && all_finite(in.p.value);
}

Product weighted_sum(const HeadCall& call, const AccumulatorInputs& in, const Matrix& start) {
    return {call,    Stage::acc, call.units.acc_accumulation, in.p.value, in.v.value, false, 1, &start,
            nullptr, in.v_packed};
}

/// The bound of a guarded sum, relative to its partial sums and terms, and near zero.
struct GuardedBound {
    double unit;
    double near_zero;
};

GuardedBound guarded_bound(const HeadCall& call, const AccumulatorInputs& in) {
    const AccumulationBound bound =
        accumulation_bound(call.rounding, Stage::acc, call.units.acc_accumulation);
    return {bound.per_partial_sum + bound.operand,
            bound.underflow * product_unit(call, Stage::acc) * double(in.p.value.cols())};
}

/// What p and v are off by, where the sum is finite.
void add_operand_errors(const AccumulatorInputs& in, Matrix& error) {
    // Not its maximum: a NaN may hide it.
    const bool inexact = !(in.p.error.array() == 0).all();
    if (inexact) add_product(in.p.error, in.v.value.cwiseAbs(), false, error);
    if (!in.v.is_exact()) add_product(in.p.value.cwiseAbs() + in.p.error, error_of(in.v), false, error);
}

BudgetTerms sum_terms(const HeadCall& call, const AccumulatorInputs& in, const Matrix& start,
                      Eigen::Index row, Eigen::Index col) {
    BudgetTerms terms = product_terms(weighted_sum(call, in, start), row, col);
    const Eigen::RowVectorXd magnitude = in.v.value.col(col).cwiseAbs().transpose();
    const double of_p = in.p.error.row(row).dot(magnitude);
    const Eigen::RowVectorXd weights = in.p.value.row(row).cwiseAbs() + in.p.error.row(row);
    const double of_v = in.v.error * weights.dot(magnitude) + in.v.absolute * weights.sum();
    terms.add("p, not dumped", fmt::format("{:.3g}, sum of error * |v|", of_p), of_p, "from p");
    terms.add("v not dumped, dequantised", fmt::format("{:.3g}, sum of p * error", of_v), of_v, "from v");
    return terms;
}

BudgetTerms guarded_terms(const HeadCall& call, const AccumulatorInputs& in, const Matrix& start, double acc,
                          Eigen::Index row, Eigen::Index col) {
    const GuardedBound bound = guarded_bound(call, in);
    const Matrix own_start = start.block(row, col, 1, 1);
    const Matrix p = in.p.value.row(row);
    const Matrix p_error = in.p.error.row(row);
    const Matrix s = in.s.value.row(row);
    const Matrix v = in.v.value.col(col);
    const double partial_sums = guarded_product(own_start, p, nullptr, s, v, 1).error(0, 0);
    const double inherited = guarded_product(own_start, p, &p_error, s, v, 0).error(0, 0);
    BudgetTerms terms;
    terms.add("sum of products, certain",
              fmt::format("{:.3g} * {:.3g}, sum of |partial sums| and |terms|", bound.unit, partial_sums),
              bound.unit * partial_sums, source_of(call.units.acc_accumulation));
    terms.add("p, not dumped", fmt::format("{:.3g}, sum of error * |v|", inherited), inherited, "from p");
    terms.add("v not dumped, dequantised", fmt::format("{:.3g} * {:.3g}", in.v.error, std::abs(acc)),
              in.v.error * std::abs(acc), "from v");
    terms.add_flush_to_zero(bound.near_zero);
    return terms;
}

}  // namespace

Estimate accumulate(const HeadCall& call, const AccumulatorInputs& in) {
    const Matrix start = rescaled(in);
    Estimate acc;
    if (is_finite(in, start)) {
        acc = sum_of_products(weighted_sum(call, in, start));
        if (!call.bounds) return acc;
        add_operand_errors(in, acc.error);
    } else {
        const GuardedBound bound = guarded_bound(call, in);
        acc = guarded_product(start, in.p.value, &in.p.error, in.s.value, in.v.value, bound.unit);
        acc.error.array() += bound.near_zero;
        if (in.v.error > 0) acc.error += in.v.error * acc.value.cwiseAbs();
    }
    const AccumulatorRoundings roundings = accumulator_roundings(call);
    for (Eigen::Index i = 0; i < acc.error.rows(); ++i) {
        const double factor = in.factor.value(i, 0);
        const double factor_error = in.factor.error(i, 0);
        const auto before_error = in.before.error.row(i).array();
        acc.error.row(i).array() +=
            start.row(i).array().abs() * roundings.of_rescaled +
            acc.value.row(i).array().abs() * roundings.of_sum + factor * before_error +
            factor_error * (in.before.value.row(i).array().abs() + before_error) + roundings.near_zero;
    }
    return acc;
}

BudgetTerms accumulator_terms(const HeadCall& call, const AccumulatorInputs& in, Eigen::Index row,
                              Eigen::Index col) {
    const Matrix start = rescaled(in);
    const double value = accumulate(call, in).value(row, col);
    BudgetTerms terms = is_finite(in, start) ? sum_terms(call, in, start, row, col)
                                             : guarded_terms(call, in, start, value, row, col);
    const AccumulatorRoundings roundings = accumulator_roundings(call);
    const double before = std::abs(start(row, col));
    terms.add(!is_narrow(call)                       ? "rescaling, adding the tile"
              : call.problem.dtype_acc == Dtype::f16 ? "rescaling, adding, in float16"
                                                     : "rescaling, adding, in bfloat16",
              fmt::format("{:.3g} * {:.3g} + {:.3g} * {:.3g}", roundings.of_rescaled, before,
                          roundings.of_sum, std::abs(value)),
              roundings.of_rescaled * before + roundings.of_sum * std::abs(value), "IEEE 754");
    if (is_narrow(call)) {
        terms.add("acc in its type near zero", in_formula(roundings.near_zero), roundings.near_zero,
                  "IEEE 754");
    } else {
        terms.add_flush_to_zero(roundings.near_zero);
    }
    add_rescaling_terms(in.before.value(row, col), in.before.error(row, col), in.factor.value(row, 0),
                        in.factor.error(row, 0), "acc", terms);
    return terms;
}

}  // namespace tilescope
