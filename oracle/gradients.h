#pragma once

#include "oracle/estimate.h"
#include "oracle/head_call.h"
#include "oracle/scores.h"

namespace tilescope {

// The backward pass; oracle/ERROR_BUDGET.md derives its bounds. Source of the formulas: Dao,
// FlashAttention-2, arXiv:2307.08691, algorithm 2.

/// delta = row sum of dout * o, R x 1, from the kernel's own numbers. Bound: accumulation_bound of float32.
Estimate row_delta(const HeadCall& call, const Matrix& dout, const Matrix& o);

/// dP = dout V^T, R x N. Bound: accumulation_bound over the partial sums, the rounding of V, and the product
/// with descale_v where it comes after the sum.
Estimate probability_gradients(const HeadCall& call, const Matrix& dout, const Operand& v);

/// dS = P (dP - delta) before the derivative of a soft cap, R x N; 0, exactly, where P is. Bound: what its
/// factors may be off by, the subtraction's rounding and ds_roundings() products.
Estimate score_gradients(const HeadCall& call, const Estimate& p, const Estimate& dp, const Estimate& delta);

/// Products that ds is made of: with P, the derivative of a cap and ds_scale; two more where P is scaled, and
/// that is taken off again.
double ds_roundings(const HeadCall& call);

/// ds times the derivative of the soft cap.
Estimate chain_cap(const Estimate& ds, const Estimate& derivative);

}  // namespace tilescope
