#include "oracle/ranks/merge_formula.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "dump/schema/rounding.h"
#include "oracle/formula/budget.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// As merge_weights() of logarithms to the base e^(1 / scale).
MergeWeights weights_in_base(double lse_a, double lse_b, double scale) {
    MergeWeights weights = merge_weights(lse_a * scale, lse_b * scale);
    weights.lse /= scale;
    return weights;
}

/// A log-sum-exp that went through a narrow type, in the units that the kernel keeps it in.
double rounded(double lse, Dtype dtype, LogBase base) {
    const double unit = base == LogBase::two ? std::numbers::log2e : 1;
    return double(decode(dtype, encode(dtype, float(lse * unit)))) / unit;
}

MergeWeights narrow_lse(double a, double b, Dtype dtype, LogBase base) {
    MergeWeights weights = merge_weights(rounded(a, dtype, base), rounded(b, dtype, base));
    weights.lse = rounded(weights.lse, dtype, base);
    return weights;
}

constexpr MergeMistake mistakes[] = {
    {"merge_in_base_two", "log-sum-exps of base e are merged with powers of two",
     "exp2 in the merge, where the kernel returns natural logarithms",
     [](double a, double b, int, LogBase) { return weights_in_base(a, b, std::numbers::ln2); }},
    {"merge_in_base_e", "log-sum-exps of base two are merged with powers of e",
     "exp in the merge, where the kernel returns base-2 logarithms",
     [](double a, double b, int, LogBase) { return weights_in_base(a, b, std::numbers::log2e); }},
    {"merge_without_weights", "partial outputs are added up without their weights",
     "exp(lse - merged lse) of both sides of the sum",
     [](double a, double b, int, LogBase) {
         return MergeWeights{1, 1, merge_weights(a, b).lse};
     }},
    {"merge_takes_mean", "partial outputs are averaged",
     "the weights of the merge: exp(lse - merged lse), not one over the number of steps",
     [](double a, double b, int merged, LogBase) {
         return MergeWeights{merged / (merged + 1.0), 1 / (merged + 1.0), merge_weights(a, b).lse};
     }},
    {"merge_takes_half", "the merge is the mean of both sides, whatever their log-sum-exps",
     "the weights of the merge",
     [](double a, double b, int, LogBase) {
         return MergeWeights{0.5, 0.5, merge_weights(a, b).lse};
     }},
    {"merge_without_rescaling", "what was merged before is not rescaled to the new log-sum-exp",
     "exp(lse before - merged lse), the factor of the old output",
     [](double a, double b, int, LogBase) {
         const MergeWeights right = merge_weights(a, b);
         return MergeWeights{1, right.b, right.lse};
     }},
    {"partial_without_weight", "the step's output is added without its weight",
     "exp(lse of the step - merged lse), the factor of the new output",
     [](double a, double b, int, LogBase) {
         const MergeWeights right = merge_weights(a, b);
         return MergeWeights{right.a, 1, right.lse};
     }},
    {"weights_swapped", "each side has the weight of the other", "which log-sum-exp belongs to which output",
     [](double a, double b, int, LogBase) {
         const MergeWeights right = merge_weights(a, b);
         return MergeWeights{right.b, right.a, right.lse};
     }},
    {"step_left_out", "the step is not merged", "whether every step reaches the merge",
     [](double a, double, int, LogBase) {
         return MergeWeights{1, 0, a};
     }},
    {"step_replaces", "the step's output replaces what was merged before",
     "whether the merge reads what was merged before",
     [](double, double b, int, LogBase) {
         return MergeWeights{0, 1, b};
     }},
    {"step_taken_twice", "the step is merged twice", "how often the merge runs in a step",
     [](double a, double b, int, LogBase) {
         const MergeWeights weights = merge_weights(a, b + std::numbers::ln2);
         return weights;
     }},
    {"lse_takes_maximum", "the merged log-sum-exp is the larger of both",
     "the logarithm of the sum in the merge",
     [](double a, double b, int, LogBase) {
         const double most = std::max(a, b);
         return MergeWeights{std::exp(a - most), std::exp(b - most), most};
     }},
    {"lse_added_up", "log-sum-exps are added", "the logarithm of the sum of exponentials in the merge",
     [](double a, double b, int, LogBase) {
         return MergeWeights{std::exp(a - (a + b)), std::exp(b - (a + b)), a + b};
     }},
    {"lse_in_f16", "log-sum-exps go through float16", "the type of the buffers that log-sum-exps are kept in",
     [](double a, double b, int, LogBase base) { return narrow_lse(a, b, Dtype::f16, base); }, Dtype::f16},
    {"lse_in_bf16", "log-sum-exps go through bfloat16",
     "the type of the buffers that log-sum-exps are kept in",
     [](double a, double b, int, LogBase base) { return narrow_lse(a, b, Dtype::bf16, base); }, Dtype::bf16},
};

/// How far the weight exp(lse_a - lse) may be off, relative.
double weight_error(double lse_a, double lse_b, double lse, double lse_error) {
    Units units;
    units.p_exp = ExpFunction::fast_expf;
    const ExpFunctionBound exponential = exp_function_bound(units);
    const double magnitude = std::abs(lse_a) + std::abs(lse_b) + std::abs(lse);
    return gamma(4, u_f32) * magnitude + exponential.constant +
           exponential.per_argument * std::abs(lse_a - lse_b) + lse_error;
}

/// What the merge itself adds to an lse. oracle/ERROR_BUDGET.md, "Merging".
double merged_lse_error(double lse_a, double lse_b) {
    const double apart = std::abs(lse_a - lse_b);
    const double magnitude = std::abs(lse_a) + std::abs(lse_b) + std::numbers::ln2;
    const double smaller = std::exp(-apart) / (1 + std::exp(-apart));
    return smaller * (weight_error(lse_a, lse_b, 0, 0) + u_f32) +
           log_function_bound(std::log1p(std::exp(-apart))) + gamma(4, u_f32) * magnitude;
}

PartialRow merge_with(const PartialRow& a, const PartialRow& b, const MergeWeights& weights) {
    PartialRow merged;
    const double own = merged_lse_error(a.lse, b.lse);
    const double from_rows = std::max(a.lse_error, b.lse_error);
    merged.lse = weights.lse;
    merged.lse_error = own + from_rows;
    merged.o = weights.a * a.o + weights.b * b.o;
    // Weights are at most 1, and so is what two log-sum-exps are off by together.
    const double relative = weight_error(a.lse, b.lse, weights.lse, own + 2 * from_rows) + gamma(6, u_f32);
    merged.o_error =
        std::max(weights.a, 0.0) * a.o_error + std::max(weights.b, 0.0) * b.o_error +
        relative * (std::max(weights.a, 1.0) * a.o.cwiseAbs() + std::max(weights.b, 1.0) * b.o.cwiseAbs());
    return merged;
}

}  // namespace

PartialRow empty_row(Eigen::Index head_dim_v) {
    return exact_row(Eigen::RowVectorXd::Zero(head_dim_v), -infinity);
}

PartialRow exact_row(Eigen::RowVectorXd o, double lse) {
    PartialRow row;
    row.o_error = Eigen::RowVectorXd::Zero(o.size());
    row.o = std::move(o);
    row.lse = lse;
    return row;
}

MergeWeights merge_weights(double lse_a, double lse_b) {
    const double most = std::max(lse_a, lse_b);
    const double sum = std::exp(lse_a - most) + std::exp(lse_b - most);
    return {std::exp(lse_a - most) / sum, std::exp(lse_b - most) / sum, most + std::log(sum)};
}

PartialRow merge_rows(const PartialRow& a, const PartialRow& b) {
    if (a.is_empty()) return b;
    if (b.is_empty()) return a;
    return merge_with(a, b, merge_weights(a.lse, b.lse));
}

std::span<const MergeMistake> merge_mistakes() {
    return mistakes;
}

PartialRow merge_wrongly(const PartialRow& a, const PartialRow& b, int merged, LogBase base,
                         const MergeMistake& mistake) {
    if (!a.is_empty() && !b.is_empty()) return merge_with(a, b, mistake.weights(a.lse, b.lse, merged, base));
    PartialRow other = a.is_empty() ? b : a;
    if (mistake.kept_in != Dtype::f32) other.lse = rounded(other.lse, mistake.kept_in, base);
    return other;
}

}  // namespace tilescope
