#include "oracle/gradient_sum.h"

#include <cmath>
#include <limits>

#include "oracle/products.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

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

/// a b term by term, for operands that hold NaN or infinities: a hidden element must not reach the sum.
Estimate sum_row_by_row(const AccumulationBound& bound, const Matrix& a, const Matrix& scores,
                        const Matrix& b) {
    Estimate sum = zeros(a.rows(), b.cols());
    for (Eigen::Index i = 0; i < a.rows(); ++i) {
        for (Eigen::Index j = 0; j < a.cols(); ++j) {
            if (scores(i, j) == -infinity && a(i, j) == 0) continue;
            const Eigen::RowVectorXd term = a(i, j) * b.row(j);
            sum.value.row(i) += term;
            sum.error.row(i) +=
                (sum.value.row(i).cwiseAbs() + term.cwiseAbs()) * (bound.per_partial_sum + bound.operand);
        }
    }
    return sum;
}

}  // namespace

GradientSum::GradientSum(Stage stage, Eigen::Index rows, Eigen::Index cols)
    : stage_(stage), sum_(zeros(rows, cols)), magnitude_(Matrix::Zero(rows, cols)) {}

void GradientSum::add(const HeadCall& call, const Estimate& a, const Matrix& scores, const Matrix& b,
                      double b_error) {
    const Accumulation accumulation = units_of(call, stage_).accumulation;
    Estimate tile;
    if (all_finite(a.value) && all_finite(b)) {
        tile = sum_of_products(call, stage_, accumulation, a.value, b, false,
                               Matrix::Zero(a.value.rows(), b.cols()));
    } else {
        tile = sum_row_by_row(accumulation_bound(call.rounding, stage_, accumulation), a.value, scores, b);
    }
    sum_.value += tile.value;
    if (!call.bounds) return;
    // Not its maximum: a NaN may hide it.
    const bool inexact = !(a.error.array() == 0).all();
    if (inexact || b_error > 0) {
        const Matrix weight = a.error + b_error * (a.value.cwiseAbs() + a.error);
        add_product(weight, b.cwiseAbs(), false, tile.error);
    }
    sum_.error += tile.error;
    magnitude_ += tile.value.cwiseAbs() + tile.error;
    terms_ += double(b.rows());
    tiles_ += 1;
}

GradientSum::Parts GradientSum::parts(const HeadCall& call, Eigen::Index row, Eigen::Index col) const {
    const GradientUnits units = units_of(call, stage_);
    const AccumulationBound bound = accumulation_bound(call.rounding, stage_, units.accumulation);
    const bool half =
        units.accumulation == Accumulation::fma_f16 || units.accumulation == Accumulation::tensor_core_f16;
    const double u = half ? unit_roundoff(Dtype::f16) : u_f32;
    Parts parts;
    parts.value = sum_.value(row, col) * units.scale;
    parts.scale = units.scale;
    parts.in_tiles = sum_.error(row, col);
    parts.magnitude = magnitude_(row, col);
    parts.accumulation = units.accumulation;
    parts.factor = units.has_factor ? gamma(4, u_f32) : 0;
    // Every term, and every tile that is added by itself, meets a partial sum of the tiles before it.
    parts.per_magnitude = bound.per_partial_sum * terms_ + u * tiles_;
    const double probable = bound.per_root_squares * std::sqrt(terms_ + tiles_);
    parts.is_probable = probable > 0 && probable < parts.per_magnitude;
    if (parts.is_probable) parts.per_magnitude = probable;
    const double value = std::abs(parts.value);
    parts.error = (parts.in_tiles + parts.per_magnitude * parts.magnitude) * units.scale +
                  (parts.factor + u_oracle) * value + flush_to_zero;
    parts.store = cast_bound(stage_dtype(call.problem, stage_), value + parts.error);
    parts.error += parts.store;
    return parts;
}

Estimate GradientSum::gradient(const HeadCall& call) const {
    Estimate gradient{sum_.value * units_of(call, stage_).scale, sum_.error};
    if (!call.bounds) return gradient;
    for (Eigen::Index i = 0; i < gradient.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < gradient.value.cols(); ++j)
            gradient.error(i, j) = parts(call, i, j).error;
    }
    return gradient;
}

}  // namespace tilescope
