#pragma once

#include "oracle/formula/budget_terms.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"

namespace tilescope {

/// P = exp(s - m) before any cast, R x N. In the backward pass lse is in the place of m.
/// Types: float64 estimates of a float32 exponential.
/// Max error: those of s and m, exp_argument_bound(), exp_function_bound(), and flush_to_zero; P itself where the kernel
/// may flush it.
/// Valid range: every score; exactly 0 where s is -inf and m is no NaN.
Estimate probabilities(const HeadCall& call, const Estimate& s, const Estimate& m);

/// P times p_scale after its cast to `dtype`. A value without error is rounded, exactly; one with an error,
/// or beyond the type's range, keeps its value and gets the bound of that rounding added to its error.
Estimate cast_probabilities(const HeadCall& call, Estimate p, Dtype dtype);

/// P times p_scale and the descale of V of its key, from `first_key` on, after its cast to `dtype`. One product more
/// is rounded to float32 before: where either of its neighbours rounds otherwise, both are allowed.
Estimate cast_with_descale(const HeadCall& call, std::int64_t first_key, Estimate p, Dtype dtype);

/// The same for any estimate that is multiplied with `scale` in the cast.
Estimate cast_scaled(const HeadCall& call, Estimate estimate, Dtype dtype, const DumpFactor& scale,
                     Overflow overflow);

/// The term of that cast, after those that `value` has.
void add_cast_terms(Dtype dtype, double scale, Overflow overflow, const char* name, double value,
                    BudgetTerms& terms);

/// What one of the probabilities may be off by after its cast, part by part; `of_score` are the terms of its
/// score, as finishing_terms() has them. `first_key` is that of the tile.
BudgetTerms probability_terms(const HeadCall& call, const Estimate& s, const Estimate& m, Eigen::Index row,
                              Eigen::Index col, const BudgetTerms& of_score, std::int64_t first_key = 0);

/// exp(m_before - m), R x 1: the factor that l and acc are rescaled by.
/// Types and max error are those of probabilities().
/// Valid range: every maximum; exactly 0 where m_before is -inf and m is no NaN.
Estimate rescale_factor(const HeadCall& call, const Estimate& m_before, const Estimate& m);

}  // namespace tilescope
