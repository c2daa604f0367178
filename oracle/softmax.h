#pragma once

#include "oracle/estimate.h"
#include "oracle/head_call.h"

namespace tilescope {

/// MaxEnd::key of an end that comes from m before the tile, and not from a score.
inline constexpr Eigen::Index m_key_before = -1;

/// One end of what a running maximum may be: value + reach.
struct MaxEnd {
    double value = 0;                 ///< a score, or m before the tile
    double error = 0;                 ///< its own, with its conversion to the units of m
    double reach = 0;                 ///< from the value to the end
    Eigen::Index key = m_key_before;  ///< column of the score
};

/// What one row's maximum after the tile may be, natural units: from the maximum of score - error to the
/// maximum of score + error. So a score far below the others does not widen it, however large its error is.
struct MaxInterval {
    double most = 0;  ///< the maximum itself; NaN where a score is
    MaxEnd lower;     ///< where m may stay behind, by as much below
    MaxEnd upper;
};
MaxInterval max_interval(const HeadCall& call, const Estimate& m_before, const Estimate& s, Eigen::Index row);

/// Running maximum after the tile, R x 1: max_interval().
/// Types: float64 estimates of a float32 maximum.
/// Max error: a maximum rounds nothing; that of the scores, of their conversion where m is kept in other
/// units than s, and half the stale threshold where m may stay behind.
/// Valid range: every score; -inf where no key was seen, NaN and infinitely wide where a score is NaN.
Estimate row_max(const HeadCall& call, const Estimate& m_before, const Estimate& s);

/// P = exp(s - m) before any cast, R x N. In the backward pass lse is in the place of m.
/// Types: float64 estimates of a float32 exponential.
/// Max error: those of s and m, exp_argument_bound(), exp_function_bound(), and flush_to_zero.
/// Valid range: every score; exactly 0 where s is -inf and m is no NaN.
Estimate probabilities(const HeadCall& call, const Estimate& s, const Estimate& m);

/// P times p_scale after its cast to `dtype`. A value without error is rounded, exactly; one with an error,
/// or beyond the type's range, keeps its value and gets the bound of that rounding added to its error.
Estimate cast_probabilities(const HeadCall& call, Estimate p, Dtype dtype);

/// The same for any estimate that is multiplied with `scale` in the cast.
Estimate cast_scaled(const HeadCall& call, Estimate estimate, Dtype dtype, double scale, Overflow overflow);

/// exp(m_before - m), R x 1: the factor that l and acc are rescaled by.
/// Types and max error are those of probabilities().
/// Valid range: every maximum; exactly 0 where m_before is -inf and m is no NaN.
Estimate rescale_factor(const HeadCall& call, const Estimate& m_before, const Estimate& m);

/// What row_sum() adds to the rounding of the sum itself: rescaling, adding the tile, and taking p_scale off.
double row_sum_roundings(const HeadCall& call, double rescaled, double l);

/// l = l_before * factor + row sum of p, R x l_lanes: of each lane's columns.
/// Types: float64 estimates of a float32 sum, in any order.
/// Max error: those of l_before, factor and p, half an ulp of each partial sum (less with the probability of
/// the rounding model), row_sum_roundings(), and flush_to_zero.
/// Valid range: sums that do not overflow float32.
Estimate row_sum(const HeadCall& call, const Estimate& l_before, const Estimate& factor, const Estimate& p);

}  // namespace tilescope
