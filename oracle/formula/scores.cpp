#include "oracle/formula/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/formula/budget.h"
#include "oracle/formula/softmax.h"

namespace tilescope {

namespace {

/// Roundings of the multiplications that turn a sum of products into a score: sm_scale and descales, and
/// log2(e) with its product.
double scaling_roundings(const HeadCall& call) {
    const Units& u = call.units;
    double roundings = u.s_log_base == LogBase::two ? 2 : 0;
    if (u.s_scaled) roundings += scale_roundings(call);
    // Under a cap the factor sm_scale / cap is rounded before its product; cap_scores() counts the product.
    if (call.capped() && u.s_capped) roundings += scale_roundings(call);
    return roundings;
}

/// ALiBi and bias of a tile, and the sum of their magnitudes.
struct TileBias {
    Matrix value;
    Matrix magnitude;
};

TileBias tile_bias(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, std::int64_t rows,
                   std::int64_t cols) {
    TileBias bias{Matrix::Zero(rows, cols), Matrix::Zero(rows, cols)};
    if (call.read_bias) {
        MatrixF tile(rows, cols);
        call.read_bias(first_row, first_key, tile);
        bias.value = tile.cast<double>();
        bias.magnitude = bias.value.cwiseAbs();
    }
    if (call.problem.alibi == Alibi::none) return bias;
    for (Eigen::Index i = 0; i < rows; ++i) {
        const double diagonal = double(diagonal_of(call.problem, first_row + i)) + call.alibi_shift;
        for (Eigen::Index j = 0; j < cols; ++j) {
            const double position = double(key_position(call.problem, first_key + j));
            const double distance = position - diagonal;
            const double slope = call.alibi_slope;
            bias.value(i, j) +=
                call.problem.alibi == Alibi::linear ? slope * distance : -slope * std::abs(distance);
            // Kernels leave a multiple of the row's position out or add it in one product.
            bias.magnitude(i, j) += std::abs(slope) * (position + std::abs(diagonal));
        }
    }
    return bias;
}

/// The soft cap of one score.
template <class Error>
void cap_score(const HeadCall& call, Bounded<Error>& s) {
    const double cap = call.problem.logits_soft_cap;
    const bool approximate = call.units.s_tanh == TanhFunction::tanh_approx;
    const double function = tanh_function_bound(call.units.s_tanh);
    const double x = s.value;
    // The division by the cap, or the product with its reciprocal.
    s.error.add(gamma(2, u_f32) * std::abs(x), [&] {
        return TermName{"division by the soft cap", roundings(2, std::abs(x)), "Higham, lemma 3.1"};
    });
    // The slope is largest at the end of the interval that is nearest to 0.
    const double nearest = std::tanh(std::max(std::abs(x) - s.error.total(), 0.0) / cap);
    const double slope = 1 - nearest * nearest;
    s.error.scale(slope, [&] { return in_formula(slope) + " (1 - tanh^2)"; });
    const double tangent = std::tanh(x / cap);
    const double capped = cap * std::abs(tangent);
    s.error.add(capped * (function + gamma(2, u_f32)), [&](BudgetTerms& terms) {
        terms.add(approximate ? "tanh.approx of the soft cap" : "tanhf of the soft cap",
                  fmt::format("{:.3g} * {:.3g}", function, capped), function * capped,
                  approximate ? "PTX ISA, tanh.approx" : "CUDA guide, math");
        terms.add("product with the soft cap", roundings(2, capped), gamma(2, u_f32) * capped,
                  "Higham, lemma 3.1");
    });
    s.error.add_flush_to_zero(flush_to_zero * (1 + cap));
    s.value = cap * tangent;
}

/// Adds `bias`, whose own terms have `magnitude`, to one score.
template <class Error>
void bias_score(double bias, double magnitude, Bounded<Error>& s) {
    const double before = std::abs(s.value);
    s.value += bias;
    if (s.value == -inf) return s.error.clear();
    // The slope's product, its conversion (log2(e), sm_scale or the cap: a factor and a product each), then
    // the sums.
    const double of_bias = gamma(5, u_f32) * magnitude;
    const double of_sum = gamma(2, u_f32) * before;
    s.error.add(of_bias + of_sum + flush_to_zero, [&](BudgetTerms& terms) {
        terms.add("ALiBi and bias", roundings(5, magnitude), of_bias, "Higham, lemma 3.1");
        terms.add("adding the bias", roundings(2, before), of_sum, "Higham, lemma 3.1");
        terms.add_flush_to_zero(flush_to_zero);
    });
}

/// Calls visit(row, column) for each element of a tile that the mask hides.
template <class Visit>
void for_each_masked(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, Eigen::Index rows,
                     Eigen::Index keys, const Visit& visit) {
    if (call.sees_all()) return;
    for (Eigen::Index i = 0; i < rows; ++i) {
        const KeyRange visible = call.visible_to(first_row + i, first_key);
        const std::int64_t begin = std::clamp<std::int64_t>(visible.first - first_key, 0, keys);
        const std::int64_t end = std::clamp<std::int64_t>(visible.last - first_key, begin, keys);
        for (Eigen::Index j = 0; j < begin; ++j) visit(i, j);
        for (Eigen::Index j = end; j < keys; ++j) visit(i, j);
    }
}

/// What a sum of products goes through until the softmax sees it.
struct ScoreSteps {
    bool cap;
    bool bias;
    Dtype cast;
    bool mask;
};

/// Up to what the dump holds.
ScoreSteps steps_of_dump(const HeadCall& call) {
    const Units& u = call.units;
    const bool cap_missing = call.capped() && !u.s_capped;
    return {call.capped() && u.s_capped, call.biased() && u.s_biased && !cap_missing, u.s_cast, u.s_masked};
}

/// From there on.
ScoreSteps steps_after_dump(const HeadCall& call) {
    const Units& u = call.units;
    const bool cap_missing = call.capped() && !u.s_capped;
    const bool bias_missing = call.biased() && (!u.s_biased || cap_missing);
    // A capped -inf is finite again, and a number with a bias is another one.
    const bool mask_again = cap_missing || (bias_missing && masks_with_number(u));
    return {cap_missing, bias_missing, Dtype::f32, !u.s_masked || mask_again};
}

Estimate apply(ScoreSteps steps, const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
               Estimate s) {
    if (steps.cap) s = cap_scores(call, std::move(s));
    if (steps.bias) s = add_bias(call, first_row, first_key, std::move(s));
    if (steps.cast != Dtype::f32) {
        const DumpFactor scale =
            dump_factor(call, Stage::s, first_row, first_key, s.value.rows(), s.value.cols());
        s = cast_scaled(call, std::move(s), steps.cast, scale, Overflow::to_infinity);
    }
    if (steps.mask) apply_mask(call, first_row, first_key, s);
    return s;
}

/// The same of one score.
BudgetTerms apply(ScoreSteps steps, const HeadCall& call, std::int64_t row, std::int64_t key,
                  Bounded<BudgetTerms> s) {
    if (steps.mask && !call.visible_to(row, key).contains(key)) return {};
    if (steps.cap) cap_score(call, s);
    if (steps.bias) {
        const TileBias bias = tile_bias(call, row, key, 1, 1);
        bias_score(bias.value(0, 0), bias.magnitude(0, 0), s);
    }
    if (steps.cast != Dtype::f32) {
        const double scale = dump_factor(call, Stage::s, row, key, 1, 1).at(0, 0);
        add_cast_terms(steps.cast, scale, Overflow::to_infinity, "cast of s to", s.value, s.error);
    }
    return std::move(s.error);
}

/// In place, element by element.
template <class Formula>
void for_each_score(Estimate& s, const Formula& formula) {
    for (Eigen::Index i = 0; i < s.value.size(); ++i) {
        Bounded<ErrorSum> element{s.value.data()[i], ErrorSum(s.error.data()[i])};
        formula(i, element);
        s.value.data()[i] = element.value;
        s.error.data()[i] = element.error.total();
    }
}

Product scores_of(const HeadCall& call, const Operand& q, const Operand& k, const ScoreOperands& operands) {
    return {
        call,    Stage::s,         call.units.s_accumulation, q.value, k.value, true, call.problem.sm_scale,
        nullptr, operands.q_norms, operands.k_packed};
}

/// What the rounding of operands that were not dumped does to the products of one pair of rows.
double operand_error(const Operand& q, const Operand& k, Eigen::Index row, Eigen::Index col) {
    const Eigen::ArrayXd of_q = q.value.row(row).cwiseAbs().transpose();
    const Eigen::ArrayXd of_k = k.value.row(col).cwiseAbs().transpose();
    const Eigen::ArrayXd q_error = of_q * q.error + q.absolute;
    const Eigen::ArrayXd k_error = of_k * k.error + k.absolute;
    return (of_q * k_error + q_error * (of_k + k_error)).sum();
}

}  // namespace

Matrix error_of(const Operand& operand) {
    return (operand.value.array().abs() * operand.error + operand.absolute).matrix();
}

Estimate scaled_scores(const HeadCall& call, const Operand& q, const Operand& k,
                       const ScoreOperands& operands) {
    Estimate s = sum_of_products(scores_of(call, q, k, operands), gamma(scaling_roundings(call), u_f32));
    if (call.bounds && !(q.is_exact() && k.is_exact())) {
        const double scale = call.problem.sm_scale;
        const Matrix k_error = error_of(k);
        add_product(q.value.cwiseAbs() * scale, k_error, true, s.error);
        add_product(error_of(q) * scale, k.value.cwiseAbs() + k_error, true, s.error);
    }
    return s;
}

Estimate cap_scores(const HeadCall& call, Estimate s) {
    for_each_score(s, [&](Eigen::Index, Bounded<ErrorSum>& score) { cap_score(call, score); });
    return s;
}

Estimate add_bias(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, Estimate s) {
    const TileBias bias = tile_bias(call, first_row, first_key, s.value.rows(), s.value.cols());
    for_each_score(s, [&](Eigen::Index i, Bounded<ErrorSum>& score) {
        bias_score(bias.value.data()[i], bias.magnitude.data()[i], score);
    });
    return s;
}

void apply_mask(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, Estimate& s) {
    const double value = masked_score(call.units);
    const DumpFactor factor =
        dump_factor(call, Stage::s, first_row, first_key, s.value.rows(), s.value.cols());
    for_each_masked(call, first_row, first_key, s.value.rows(), s.value.cols(),
                    [&](Eigen::Index i, Eigen::Index j) {
                        s.value(i, j) = value == -inf ? value : value / factor.at(i, j);
                        s.error(i, j) = 0;
                    });
}

void hide_masked(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                 const std::vector<bool>& rows, Estimate& s) {
    for_each_masked(call, first_row, first_key, s.value.rows(), s.value.cols(),
                    [&](Eigen::Index i, Eigen::Index j) {
                        if (!rows[std::size_t(i)]) return;
                        s.value(i, j) = -inf;
                        s.error(i, j) = 0;
                    });
}

Estimate dumped_from_scaled(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                            Estimate scaled) {
    return apply(steps_of_dump(call), call, first_row, first_key, std::move(scaled));
}

Estimate dumped_scores(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, const Operand& q,
                       const Operand& k, const ScoreOperands& operands) {
    return dumped_from_scaled(call, first_row, first_key, scaled_scores(call, q, k, operands));
}

BudgetTerms dumped_score_terms(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                               const Operand& q, const Operand& k, Eigen::Index row, Eigen::Index col) {
    const Product product = scores_of(call, q, k, {});
    Bounded<BudgetTerms> s{sum_of_products(product).value(row, col), product_terms(product, row, col)};
    const double of_operands = operand_error(q, k, row, col);
    s.error.add("q, k not dumped, scaled or dequantised",
                fmt::format("{:.3g} * {:.3g}, sum of error * |operand|", of_operands, product.scale),
                of_operands * product.scale, "from q and k");
    const double count = scaling_roundings(call);
    const double magnitude = std::abs(s.value);
    s.error.add("sm_scale and other factors", roundings(count, magnitude), gamma(count, u_f32) * magnitude,
                "Higham, lemma 3.1");
    return apply(steps_of_dump(call), call, first_row + row, first_key + col, std::move(s));
}

Estimate finish_scores(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                       Estimate dumped) {
    return apply(steps_after_dump(call), call, first_row, first_key, std::move(dumped));
}

BudgetTerms finishing_terms(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                            const Estimate& dumped, Eigen::Index row, Eigen::Index col) {
    Bounded<BudgetTerms> s{dumped.value(row, col), {}};
    const double error = dumped.error(row, col);
    s.error.add("s, not dumped", in_formula(error), error, "from s");
    return apply(steps_after_dump(call), call, first_row + row, first_key + col, std::move(s));
}

Estimate cap_derivative(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                        const Estimate& dumped) {
    const Units& u = call.units;
    const double cap = call.problem.logits_soft_cap;
    const double function = tanh_function_bound(u.s_tanh) + gamma(3, u_f32);
    Estimate s = dumped;
    if (u.s_capped && u.s_biased && call.biased()) {
        const TileBias bias = tile_bias(call, first_row, first_key, s.value.rows(), s.value.cols());
        s.error += gamma(5, u_f32) * bias.magnitude + gamma(2, u_f32) * s.value.cwiseAbs();
        s.value -= bias.value;
    }
    Estimate derivative = zeros(s.value.rows(), s.value.cols());
    for (Eigen::Index i = 0; i < s.value.size(); ++i) {
        // A hidden cell has no gradient, whatever this is.
        if (!std::isfinite(s.value.data()[i])) continue;
        const double x = s.value.data()[i] / cap;
        const double tangent = u.s_capped ? x : std::tanh(x);
        const double error = s.error.data()[i] / cap + (u.s_capped ? 0 : gamma(2, u_f32) * std::abs(x)) +
                             function * std::abs(tangent);
        derivative.value.data()[i] = 1 - tangent * tangent;
        derivative.error.data()[i] = error * (2 * std::abs(tangent) + error) + 2 * u_f32;
    }
    return derivative;
}

}  // namespace tilescope
