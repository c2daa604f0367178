#pragma once

#include "dump/schema.h"

namespace tilescope {

// Bounds of rounding errors. u = 2^-24 is the unit roundoff of float32.

/// Unit roundoff of float32.
inline constexpr double u_f32 = 0x1p-24;

/// What the oracle's own float64 arithmetic may be off by, relative to the value.
inline constexpr double u_oracle = 0x1p-48;

/// Relative bound of `roundings` successive roundings of unit roundoff u: n u / (1 - n u); infinity where n u
/// >= 1. Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, lemma 3.1.
double gamma(double roundings, double u);

/// Bound of |computed - exact| / sum |a_i b_i| for a sum of `length` exact products.
/// fma_f32: one rounding a term (Higham, section 3.1).
/// tensor_core_f32: products are exact; sums are aligned to the largest term and truncated, so each term and
/// each addition of a group loses at most 2u of the largest partial sum. Groups have at least four terms.
/// Source: Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer
/// Science 7, 2021.
double dot_product_bound(double length, Accumulation accumulation);

/// Relative bound of the exponential itself, for a non-positive argument of magnitude `argument` (natural
/// units). Source: CUDA C++ Programming Guide, mathematical functions: expf 2 ulp, exp2f 2 ulp,
/// __expf 2 + floor(1.173 |x|) ulp, ex2.approx 2 ulp. An ulp is at most 2^-23 of the value.
double exp_function_bound(ExpFunction function, double argument);

/// Bound of the rounding error of the exponential's argument s - m, in natural units. The subtraction, and on
/// either side what the factor costs that a kernel or its compiler may fuse into it: one rounding for a
/// product with sm_scale; base two: three, for log2(e), its product with sm_scale, and the product with that.
double exp_argument_bound(ExpFunction function, double s, double m);

/// Absolute bound of the logarithm of a row sum, given its value. Source: CUDA C++ Programming Guide: logf 1
/// ulp; __logf 3 ulp, and 2^-21.41 where its argument is between 1/2 and 2; __log2f less.
double log_function_bound(double log_value);

/// Largest float32 result that may be flushed to zero, and so the absolute error near zero.
inline constexpr double flush_to_zero = 0x1p-126;

/// Absolute bound of rounding `magnitude` to `dtype`; 0 for float32, which the stages are computed in.
double cast_bound(Dtype dtype, double magnitude);

}  // namespace tilescope
