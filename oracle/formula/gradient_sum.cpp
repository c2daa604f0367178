#include "oracle/formula/gradient_sum.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "oracle/formula/budget.h"
#include "oracle/formula/products.h"

namespace tilescope {

namespace {

/// What is declared of one of the gradients.
struct GradientUnits {
    Accumulation accumulation;
    double scale;     ///< what the sum is multiplied with
    bool has_factor;  ///< the kernel multiplies with anything at the end
};

GradientUnits units_of(const HeadCall& call, Stage stage) {
    const Units& u = call.units;
    switch (stage) {
        case Stage::dq:
            return {u.dq_accumulation, call.problem.sm_scale, true};
        case Stage::dk:
            return {u.dk_accumulation, call.problem.sm_scale, true};
        default:
            return {u.dv_accumulation, 1, u.p_scale != 1};
    }
}

}  // namespace

GradientSum::GradientSum(Stage stage, Eigen::Index rows, Eigen::Index cols)
    : stage_(stage), sum_(zeros(rows, cols)), magnitude_(Matrix::Zero(rows, cols)) {}

void GradientSum::add(const HeadCall& call, const Estimate& a, const Matrix& scores, const Operand& b) {
    const Accumulation accumulation = units_of(call, stage_).accumulation;
    Estimate tile;
    if (all_finite(a.value) && all_finite(b.value)) {
        tile = sum_of_products({call, stage_, accumulation, a.value, b.value, false});
    } else {
        const AccumulationBound bound = accumulation_bound(call.rounding, stage_, accumulation);
        const Matrix start = Matrix::Zero(a.value.rows(), b.value.cols());
        tile =
            guarded_product(start, a.value, nullptr, scores, b.value, bound.per_partial_sum + bound.operand);
    }
    sum_.value += tile.value;
    if (!call.bounds) return;
    // Not its maximum: a NaN may hide it.
    const bool inexact = !(a.error.array() == 0).all();
    if (inexact) add_product(a.error, b.value.cwiseAbs(), false, tile.error);
    if (!b.is_exact()) add_product(a.value.cwiseAbs() + a.error, error_of(b), false, tile.error);
    sum_.error += tile.error;
    magnitude_ += tile.value.cwiseAbs() + tile.error;
    terms_ += double(b.value.rows());
    tiles_ += 1;
    const Matrix first = b.value.col(0).cwiseAbs();
    const Matrix weights = a.value.row(0).cwiseAbs() + a.error.row(0);
    of_weights_ += a.error.row(0).dot(first.col(0));
    of_operand_ += b.error * weights.row(0).dot(first.col(0)) + b.absolute * weights.sum();
}

template <class Error>
Bounded<Error> GradientSum::element(const HeadCall& call, Eigen::Index row, Eigen::Index col,
                                    Error in_tiles) const {
    const GradientUnits units = units_of(call, stage_);
    const AccumulationBound bound = accumulation_bound(call.rounding, stage_, units.accumulation);
    const bool half =
        units.accumulation == Accumulation::fma_f16 || units.accumulation == Accumulation::tensor_core_f16;
    const double u = half                                           ? unit_roundoff(Dtype::f16)
                     : units.accumulation == Accumulation::fma_bf16 ? unit_roundoff(Dtype::bf16)
                                                                    : u_f32;
    // Every term, and every tile that is added by itself, meets a partial sum of the tiles before it.
    const double certain = bound.per_partial_sum * terms_ + u * tiles_;
    const double probable = bound.per_root_squares * std::sqrt(terms_ + tiles_);
    const bool is_probable = probable > 0 && probable < certain;
    const double relative = is_probable ? probable : certain;
    const double partial_sums = magnitude_(row, col);
    Bounded<Error> gradient{sum_.value(row, col) * units.scale, std::move(in_tiles)};
    gradient.error.add(relative * partial_sums, [&] {
        return TermName{"adding up, in any order",
                        fmt::format("{:.3g} * {:.3g}, sum of |tiles|", relative, partial_sums),
                        is_probable ? "Higham and Mary, thm 2.4" : "Higham, section 4.2"};
    });
    gradient.error.scale(units.scale, [scale = units.scale] { return in_formula(scale); });
    const double value = std::abs(gradient.value);
    constexpr double count = 4;
    const double factor = units.has_factor ? gamma(count, u_f32) : 0;
    gradient.error.add((factor + u_oracle) * value, [&](BudgetTerms& terms) {
        terms.add("factor after the sum", roundings(count, value), factor * value, "Higham, lemma 3.1");
        terms.add_own_error(u_oracle * value);
    });
    gradient.error.add_flush_to_zero(flush_to_zero);
    const Dtype dtype = stage_dtype(call.problem, stage_);
    const double stored = value + gradient.error.total();
    gradient.error.add(cast_bound(dtype, stored),
                       [&] { return rounding_to(dtype, "store to", stored, half_quantum(dtype)); });
    return gradient;
}

Estimate GradientSum::gradient(const HeadCall& call) const {
    Estimate gradient{sum_.value * units_of(call, stage_).scale, sum_.error};
    if (!call.bounds) return gradient;
    for (Eigen::Index i = 0; i < gradient.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < gradient.value.cols(); ++j)
            gradient.error(i, j) = element(call, i, j, ErrorSum(sum_.error(i, j))).error.total();
    }
    return gradient;
}

BudgetTerms GradientSum::terms(const HeadCall& call) const {
    const double in_tiles = sum_.error(0, 0);
    BudgetTerms terms;
    terms.add("products within tiles", in_formula(in_tiles) + ", sum over the tiles",
              part_of(in_tiles, of_weights_ + of_operand_), source_of(units_of(call, stage_).accumulation));
    const bool is_dv = stage_ == Stage::dv;
    terms.add(is_dv ? "p, not dumped or cast" : "ds, not dumped or cast",
              in_formula(of_weights_) + ", sum of error * |operand|", of_weights_,
              is_dv ? "from p" : "from ds");
    terms.add(
        stage_ == Stage::dq ? "k not dumped, scaled or dequantised" : "q not dumped, scaled or dequantised",
        in_formula(of_operand_), of_operand_, "from it");
    return element(call, 0, 0, std::move(terms)).error;
}

}  // namespace tilescope
