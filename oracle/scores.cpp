#include "oracle/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/products.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Roundings of the multiplications that turn a sum of products into a score: sm_scale and descales, and
/// log2(e) with its product.
double scaling_roundings(const HeadCall& call) {
    const Units& u = call.units;
    const bool descaled = !u.q_dequantised || !u.k_dequantised;
    double roundings = u.s_log_base == LogBase::two ? 2 : 0;
    if (u.s_scaled) roundings += descaled ? 3 : 1;
    // Under a cap the factor sm_scale / cap is rounded before its product; cap_scores() counts the product.
    if (call.capped() && u.s_capped) roundings += descaled ? 3 : 1;
    return roundings;
}

/// Column of the diagonal of q row `row`.
double diagonal_of(const Problem& problem, std::int64_t row) {
    const bool top_left = problem.causal_alignment == CausalAlignment::top_left;
    return double(top_left ? row : row + problem.seqlen_kv - problem.seqlen_q);
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
        const double diagonal = diagonal_of(call.problem, first_row + i) + call.alibi_shift;
        for (Eigen::Index j = 0; j < cols; ++j) {
            const double distance = double(first_key + j) - diagonal;
            const double slope = call.alibi_slope;
            bias.value(i, j) +=
                call.problem.alibi == Alibi::linear ? slope * distance : -slope * std::abs(distance);
            // Kernels leave a multiple of the row's position out or add it in one product.
            bias.magnitude(i, j) += std::abs(slope) * (double(first_key + j) + std::abs(diagonal));
        }
    }
    return bias;
}

}  // namespace

Estimate scaled_scores(const HeadCall& call, const Operand& q, const Operand& k) {
    const double scale = call.problem.sm_scale;
    Estimate s = sum_of_products(call, Stage::s, call.units.s_accumulation, q.value, k.value, true,
                                 Matrix::Zero(q.value.rows(), k.value.rows()), scale,
                                 gamma(scaling_roundings(call), u_f32));
    if (call.bounds && q.error + k.error > 0) {
        const double relative = (q.error + k.error + q.error * k.error) * scale;
        add_product(q.value.cwiseAbs() * relative, k.value.cwiseAbs(), true, s.error);
    }
    return s;
}

Estimate cap_scores(const HeadCall& call, const Estimate& s) {
    const double cap = call.problem.logits_soft_cap;
    const double function = tanh_function_bound(call.units.s_tanh);
    Estimate capped{Matrix(s.value.rows(), s.value.cols()), Matrix(s.value.rows(), s.value.cols())};
    for (Eigen::Index i = 0; i < s.value.size(); ++i) {
        const double x = s.value.data()[i];
        // The division by the cap, or the product with its reciprocal.
        const double error = s.error.data()[i] + gamma(2, u_f32) * std::abs(x);
        const double tangent = std::tanh(x / cap);
        // The slope is largest at the end of the interval that is nearest to 0.
        const double nearest = std::tanh(std::max(std::abs(x) - error, 0.0) / cap);
        capped.value.data()[i] = cap * tangent;
        capped.error.data()[i] = error * (1 - nearest * nearest) +
                                 cap * std::abs(tangent) * (function + gamma(2, u_f32)) +
                                 flush_to_zero * (1 + cap);
    }
    return capped;
}

Estimate add_bias(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, const Estimate& s) {
    const TileBias bias = tile_bias(call, first_row, first_key, s.value.rows(), s.value.cols());
    // The slope's product, its conversion (log2(e), sm_scale or the cap: a factor and a product each), then
    // the sums.
    const double of_bias = gamma(5, u_f32);
    const double of_sum = gamma(2, u_f32);
    Estimate sum{s.value + bias.value, s.error};
    for (Eigen::Index i = 0; i < sum.value.size(); ++i) {
        const double magnitude = bias.magnitude.data()[i];
        if (sum.value.data()[i] == -infinity) {
            sum.error.data()[i] = 0;
        } else {
            sum.error.data()[i] += of_bias * magnitude + of_sum * std::abs(s.value.data()[i]) + flush_to_zero;
        }
    }
    return sum;
}

void apply_mask(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, Estimate& s) {
    const std::int64_t keys = s.value.cols();
    for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
        const KeyRange visible = call.visible_to(first_row + i, first_key);
        const std::int64_t begin = std::clamp<std::int64_t>(visible.first - first_key, 0, keys);
        const std::int64_t end = std::clamp<std::int64_t>(visible.last - first_key, begin, keys);
        for (const auto& [from, to] : {std::pair{std::int64_t(0), begin}, std::pair{end, keys}}) {
            s.value.row(i).segment(from, to - from).setConstant(-infinity);
            s.error.row(i).segment(from, to - from).setZero();
        }
    }
}

Estimate dumped_from_scaled(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                            Estimate s) {
    const Units& u = call.units;
    if (call.capped() && u.s_capped) s = cap_scores(call, s);
    const bool cap_missing = call.capped() && !u.s_capped;
    if (call.biased() && u.s_biased && !cap_missing) s = add_bias(call, first_row, first_key, s);
    if (u.s_masked) apply_mask(call, first_row, first_key, s);
    return s;
}

Estimate dumped_scores(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, const Operand& q,
                       const Operand& k) {
    return dumped_from_scaled(call, first_row, first_key, scaled_scores(call, q, k));
}

Estimate finish_scores(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                       Estimate dumped) {
    const Units& u = call.units;
    const bool cap_missing = call.capped() && !u.s_capped;
    const bool bias_missing = call.biased() && (!u.s_biased || cap_missing);
    if (cap_missing) dumped = cap_scores(call, dumped);
    if (bias_missing) dumped = add_bias(call, first_row, first_key, dumped);
    // A capped -inf is finite again.
    if (!u.s_masked || cap_missing) apply_mask(call, first_row, first_key, dumped);
    return dumped;
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
