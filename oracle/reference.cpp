#include "oracle/reference.h"

#include <cmath>
#include <limits>

#include "oracle/budget.h"
#include "oracle/semantics.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Estimate zeros(Eigen::Index rows, Eigen::Index cols) {
    return {Matrix::Zero(rows, cols), Matrix::Zero(rows, cols)};
}

/// Bound of exp(x + e) - exp(x) relative to exp(x), for |e| <= error.
double exp_growth(double error) {
    // Above expm1 where it is small, which is nearly everywhere.
    return error < 1e-3 ? error * (1 + error) : std::expm1(error);
}

struct Exponential {
    double value;
    double error;
};

/// exp(s - m), where `inherited` bounds what s - m is already off by.
Exponential exponential(const Units& units, double s, double m, double inherited) {
    const double x = s - m;
    const double value = std::exp(x);
    const double argument = exp_argument_bound(units.p_exp, s, m);
    const double function = exp_function_bound(units.p_exp, x);
    const double growth = exp_growth(inherited + argument);
    // Where s - m is hardly known, the bound is that the kernel's own m is not below its own s.
    const double most = std::min(std::max(value, 1.0) * (1 + exp_growth(argument)) * (1 + function),
                                 double(std::numeric_limits<float>::max()));
    double error =
        value > 0 ? value * (growth + function * (1 + growth)) : std::exp(x + inherited + argument);
    if (error > most) error = most;
    return {value, error + value * u_oracle + flush_to_zero};
}

}  // namespace

RunningState initial_state(std::int64_t rows, std::int64_t head_dim_v) {
    RunningState state{zeros(rows, 1), zeros(rows, 1), zeros(rows, head_dim_v)};
    state.m.value.setConstant(-infinity);
    return state;
}

Operand make_operand(Matrix value) {
    MatrixF magnitude = value.cwiseAbs().cast<float>();
    return {std::move(value), std::move(magnitude)};
}

Estimate scores(const Problem& problem, const Units& units, const Operand& q, const Operand& k) {
    Estimate s;
    s.value.noalias() = q.value * k.value.transpose();
    const MatrixF magnitude = q.magnitude * k.magnitude.transpose();

    // Roundings after the sum: the product with sm_scale, and where S is in base two log2(e) and its product
    // with it.
    const double after = (units.s_scaled ? 1 : 0) + (units.s_log_base == LogBase::two ? 2 : 0);
    // The magnitudes were added up in float32 themselves.
    const double float_slack = 1 + 2 * gamma(double(problem.head_dim), u_f32);
    const double of_magnitude =
        dot_product_bound(double(problem.head_dim), units.s_accumulation) * float_slack * problem.sm_scale;
    const double of_value = gamma(after, u_f32) + u_oracle;
    const double of_underflow = flush_to_zero * (1 + double(problem.head_dim) * problem.sm_scale);
    s.value *= problem.sm_scale;
    s.error = magnitude.cast<double>() * of_magnitude + s.value.cwiseAbs() * of_value;
    s.error.array() += of_underflow;
    return s;
}

void apply_mask(const Problem& problem, std::int64_t first_row, std::int64_t first_key, Estimate& s) {
    const std::int64_t keys = s.value.cols();
    for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
        const KeyRange visible = visible_keys(problem, first_row + i);
        const std::int64_t begin = std::clamp<std::int64_t>(visible.first - first_key, 0, keys);
        const std::int64_t end = std::clamp<std::int64_t>(visible.last - first_key, begin, keys);
        for (const auto& [from, to] : {std::pair{std::int64_t(0), begin}, std::pair{end, keys}}) {
            s.value.row(i).segment(from, to - from).setConstant(-infinity);
            s.error.row(i).segment(from, to - from).setZero();
        }
    }
}

Estimate row_max(const Units& units, const Estimate& m_before, const Estimate& s) {
    // Roundings of the conversion from the units of s: the product with sm_scale; log2(e) and its product.
    const double conversion = gamma(
        (units.s_scaled != units.m_scaled ? 1 : 0) + (units.s_log_base != units.m_log_base ? 2 : 0), u_f32);
    Estimate m = m_before;
    for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
        double& row_m = m.value(i, 0);
        double s_error = 0;
        for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
            // A NaN score stays: from here on nothing can be expected of this row.
            if (std::isnan(row_m)) break;
            const double score = s.value(i, j);
            if (!(score <= row_m)) row_m = score;
            if (score != -infinity) s_error = std::max(s_error, s.error(i, j));
        }
        if (!std::isfinite(row_m)) continue;
        m.error(i, 0) = std::max(m.error(i, 0), s_error + conversion * std::abs(row_m));
    }
    return m;
}

Estimate probabilities(const Units& units, const Estimate& s, const Estimate& m) {
    Estimate p = zeros(s.value.rows(), s.value.cols());
    for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
        const double row_m = m.value(i, 0);
        for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
            const double score = s.value(i, j);
            if (score == -infinity) continue;
            const Exponential e = exponential(units, score, row_m, s.error(i, j) + m.error(i, 0));
            p.value(i, j) = e.value;
            p.error(i, j) = e.error;
        }
    }
    return p;
}

Estimate with_cast_bound(Estimate p, Dtype dtype) {
    if (dtype == Dtype::f32) return p;
    const auto masked = (p.value.array() == 0 && p.error.array() == 0).eval();
    p.error.array() += unit_roundoff(dtype) * (p.value.array().abs() + p.error.array()) + half_quantum(dtype);
    // A masked cell is 0 before its cast and after it.
    p.error = masked.select(0, p.error);
    return p;
}

Estimate rescale_factor(const Units& units, const Estimate& m_before, const Estimate& m) {
    Estimate factor = zeros(m.value.rows(), 1);
    for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
        const double before = m_before.value(i, 0);
        const double now = m.value(i, 0);
        if (before == -infinity && !std::isnan(now)) continue;
        const Exponential e = exponential(units, before, now, m_before.error(i, 0) + m.error(i, 0));
        factor.value(i, 0) = e.value;
        factor.error(i, 0) = e.error;
    }
    return factor;
}

Estimate row_sum(const Estimate& l_before, const Estimate& factor, const Estimate& p) {
    Estimate l;
    const auto rescaled = l_before.value.cwiseProduct(factor.value);
    l.value = rescaled + p.value.rowwise().sum();
    // At most one addition a key in any order of summation, the rescaling and its addition.
    const double summation = gamma(double(p.value.cols()) + 2, u_f32) + u_oracle;
    const Matrix magnitude = rescaled.cwiseAbs() + p.value.cwiseAbs().rowwise().sum();
    l.error = magnitude * summation + l_before.error.cwiseProduct(factor.value + factor.error) +
              l_before.value.cwiseAbs().cwiseProduct(factor.error) + p.error.rowwise().sum();
    return l;
}

Estimate accumulate(const Units& units, const Estimate& acc_before, const Estimate& factor, const Estimate& p,
                    const Estimate& s, const Matrix& v) {
    const Eigen::Index rows = p.value.rows();
    const Eigen::Index features = v.cols();
    Matrix product(rows, features);
    Matrix magnitude(rows, features);
    Matrix inherited(rows, features);
    const Matrix v_magnitude = v.cwiseAbs();
    if (v.allFinite()) {
        product.noalias() = p.value * v;
        magnitude.noalias() = p.value.cwiseAbs() * v_magnitude;
        inherited.noalias() = p.error * v_magnitude;
    } else {
        // 0 * NaN: a product with a masked key must not reach the sum.
        product.setZero();
        magnitude.setZero();
        inherited.setZero();
        for (Eigen::Index i = 0; i < rows; ++i) {
            for (Eigen::Index j = 0; j < p.value.cols(); ++j) {
                if (s.value(i, j) == -infinity && p.value(i, j) == 0) continue;
                product.row(i) += p.value(i, j) * v.row(j);
                magnitude.row(i) += std::abs(p.value(i, j)) * v_magnitude.row(j);
                inherited.row(i) += p.error(i, j) * v_magnitude.row(j);
            }
        }
    }

    Estimate acc;
    const auto rescaled = factor.value.col(0).asDiagonal() * acc_before.value;
    const Matrix rescaled_magnitude = (rescaled).cwiseAbs();
    acc.value = rescaled + product;
    const double rounding = dot_product_bound(double(p.value.cols()) + 1, units.acc_accumulation) + u_oracle;
    const Matrix factor_upper = factor.value + factor.error;
    acc.error = (magnitude + rescaled_magnitude) * rounding + inherited + rescaled_magnitude * u_f32 +
                factor_upper.col(0).asDiagonal() * acc_before.error +
                factor.error.col(0).asDiagonal() * acc_before.value.cwiseAbs();
    acc.error.array() += flush_to_zero * double(p.value.cols() + 1);
    return acc;
}

Estimate output(const Problem& problem, const Estimate& acc, const Estimate& l) {
    Estimate o = zeros(acc.value.rows(), acc.value.cols());
    for (Eigen::Index i = 0; i < acc.value.rows(); ++i) {
        const double sum = l.value(i, 0);
        if (sum == 0) continue;
        const double sum_error = l.error(i, 0);
        const double least = sum - sum_error;
        for (Eigen::Index j = 0; j < acc.value.cols(); ++j) {
            const double value = acc.value(i, j) / sum;
            const double inherited =
                least > 0 ? (acc.error(i, j) + std::abs(value) * sum_error) / least : infinity;
            // A division of 2 ulp, or a reciprocal of 1 ulp and its product with acc; and the store.
            const double computed =
                inherited + gamma(4, u_f32) * std::abs(value) + u_oracle * std::abs(value) + flush_to_zero;
            o.value(i, j) = value;
            o.error(i, j) = computed + cast_bound(problem.dtype_o, std::abs(value) + computed);
        }
    }
    return o;
}

Estimate log_sum_exp(const Estimate& m, const Estimate& l) {
    Estimate lse = zeros(m.value.rows(), 1);
    for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
        const double sum = l.value(i, 0);
        if (sum == 0) {
            lse.value(i, 0) = -infinity;
            continue;
        }
        const double log_sum = std::log(sum);
        const double least = sum - l.error(i, 0);
        const double inherited = least > 0 ? m.error(i, 0) + l.error(i, 0) / least : infinity;
        // Three roundings to convert m or the sum of both (log2(e) or ln 2, its product with sm_scale, and
        // the product with that), and the addition.
        const double rounding =
            log_function_bound(log_sum) + gamma(4, u_f32) * (std::abs(m.value(i, 0)) + std::abs(log_sum));
        lse.value(i, 0) = m.value(i, 0) + log_sum;
        lse.error(i, 0) = inherited + rounding + u_oracle * std::abs(lse.value(i, 0));
    }
    return lse;
}

}  // namespace tilescope
