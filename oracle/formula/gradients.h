#pragma once

#include "oracle/formula/budget_terms.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/formula/scores.h"

namespace tilescope {

// The backward pass; oracle/ERROR_BUDGET.md derives its bounds. Source of the formulas: Dao,
// FlashAttention-2, arXiv:2307.08691, algorithm 2.

/// delta = row sum of dout * o, R x 1, from the kernel's own numbers. Bound: accumulation_bound of float32.
Estimate row_delta(const HeadCall& call, const Matrix& dout, const Matrix& o);

/// dP = dout V^T, R x N. Bound: accumulation_bound over the partial sums, the rounding of V, and the product
/// with descale_v where it comes after the sum.
Estimate probability_gradients(const HeadCall& call, const Matrix& dout, const Operand& v);

/// dS = P (dP - delta) before the derivative of a soft cap, R x N; 0, exactly, where P is. Bound: what its
/// factors may be off by, the subtraction's rounding and the products that it is made of.
Estimate score_gradients(const HeadCall& call, const Estimate& p, const Estimate& dp, const Estimate& delta);

/// ds times the derivative of the soft cap.
Estimate chain_cap(Estimate ds, const Estimate& derivative);

/// The parts of their errors at one element; of ds after its cast, and with the derivative of a cap where it
/// is not null.
BudgetTerms delta_terms(const HeadCall& call, const Matrix& dout, const Matrix& o, Eigen::Index row);
BudgetTerms dp_terms(const HeadCall& call, const Matrix& dout, const Operand& v, Eigen::Index row,
                     Eigen::Index col);
BudgetTerms ds_terms(const HeadCall& call, const Estimate& p, const Estimate& dp, const Estimate& delta,
                     const Estimate* derivative, Eigen::Index row, Eigen::Index col);

}  // namespace tilescope
