#pragma once

#include <limits>
#include <string_view>

#include "dump/schema.h"

namespace tilescope {

// How the arithmetic of kernels rounds: the one table that error budgets and the watch's rules are made of.
// oracle/ERROR_BUDGET.md derives what is not cited here. u = 2^-24 is the unit roundoff of float32.

/// Unit roundoff of float32.
inline constexpr double u_f32 = 0x1p-24;

/// Largest float32 result that may be flushed to zero, and so the absolute error near zero.
inline constexpr double flush_to_zero = 0x1p-126;

/// What a tensor core does with a block of terms: it shifts them and the running sum to the exponent of the
/// largest, keeps `bits` bits after the leading one, cuts off the rest, adds exactly, and truncates the sum
/// to float32.
struct TensorCore {
    int terms = 4;      ///< of a block; the fewer, the more truncations
    int bits = 23;      ///< kept of 16-bit operands
    int fp8_terms = 4;  ///< the same for fp8 operands
    int fp8_bits = 13;
};

/// Of a device of that compute capability, for example "9.0"; the coarsest known where nothing was measured.
TensorCore tensor_core(std::string_view compute_capability);

/// Relative bound of n = `roundings` successive roundings of unit roundoff u: n u / (1 - n u).
/// Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, lemma 3.1.
/// Types: float64.
/// Max error: 4 roundings of float64, where n u is at most 1/2.
/// Valid range: n u < 1; infinity beyond.
inline double gamma(double roundings, double u) {
    const double nu = roundings * u;
    return nu < 1 ? nu / (1 - nu) : std::numeric_limits<double>::infinity();
}

/// How a sum of products rounds. Its error is at most the sum of: per_partial_sum * sum |s_i| over its
/// partial sums s_i, operand * sum |a_i b_i| over its terms, and an absolute part for underflow.
struct SumRounding {
    double per_partial_sum = 0;  ///< certain
    double to_nearest = 0;       ///< of a sum that rounds to nearest, each time on its own; 0: it truncates
    double operand = 0;          ///< roundings of the operands
    double underflow = 0;        ///< absolute, for each term
    double norm_share =
        0.5;  ///< of the partial sums within a block of terms, as oracle/ERROR_BUDGET.md has it
};

/// fma: one rounding to nearest a term (Higham, section 3.1).
/// Tensor cores multiply exactly and truncate once a term and once a block, as TensorCore says, of
/// what is aligned: partial sums and terms. float16 sums are rounded once more. Sources: Fasi, Higham,
/// Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7, 2021;
/// DeepSeek-V3 technical report, arXiv:2412.19437, section 3.3.2, for fp8.
/// Types: operands and sums are those that `accumulation` names; its rounding is float64.
/// Max error: what the SumRounding says.
/// Valid range: sums that do not overflow their type; in fma_f32, of up to 2^14 terms.
SumRounding sum_rounding(const TensorCore& core, Accumulation accumulation);

/// Relative bound of the exponential itself: constant + per_argument * |argument|, argument in natural units.
/// Source: CUDA C++ Programming Guide, mathematical functions. An ulp is at most 2^-23 of the value.
/// Types: float32.
/// Max error: expf 2 ulp, exp2f 2 ulp, __expf 2 + 1.173 |x| ulp, ex2.approx 2 ulp, or Units::p_exp_error.
/// Valid range: normal results; others may be flushed to zero, which flush_to_zero bounds.
struct ExpFunctionBound {
    double constant = 0;
    double per_argument = 0;
};
ExpFunctionBound exp_function_bound(const Units& units);

/// Rounding error of the exponential's argument s - m, in natural units: difference * |s - m| for the
/// subtraction, and terms * (|s| + |m|) for what a kernel or its compiler may fuse into it on either side:
/// one rounding for a product with sm_scale; base two: three, for log2(e), its product with sm_scale, and the
/// product with that.
struct ExpArgumentBound {
    double difference = 0;
    double terms = 0;
};
ExpArgumentBound exp_argument_bound(ExpFunction function);

/// Relative bound of the hyperbolic tangent. Sources: CUDA C++ Programming Guide, PTX ISA.
/// Types: float32.
/// Max error: tanhf 2 ulp; tanh.approx.f32 2^-11 of the value.
/// Valid range: every finite score.
double tanh_function_bound(TanhFunction function);

/// Absolute bound of the logarithm of a row sum, given its value. Source: CUDA C++ Programming Guide.
/// Types: float32.
/// Max error: logf 1 ulp; __logf 3 ulp, and 2^-21.41 where its argument is between 1/2 and 2; __log2f less.
/// Valid range: positive, normal row sums.
double log_function_bound(double log_value);

/// Absolute bound of rounding `magnitude` to `dtype`.
/// Types: any Dtype; 0 for float32, which the stages are computed in.
/// Max error: unit_roundoff() times the magnitude, plus half_quantum().
/// Valid range: up to max_finite of the type.
double cast_bound(Dtype dtype, double magnitude);

}  // namespace tilescope
