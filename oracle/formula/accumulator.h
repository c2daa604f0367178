#pragma once

#include "oracle/formula/budget_terms.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/formula/scores.h"

namespace tilescope {

/// What acc after a KV tile is computed from. Keys whose score is -inf add nothing, whatever v holds there.
struct AccumulatorInputs {
    const Estimate& before;  ///< acc before the tile
    const Estimate& factor;  ///< that rescales it, R x 1
    const Estimate& p;       ///< what multiplies v
    const Estimate& s;       ///< as the softmax sees it
    const Operand& v;
    const Packed* v_packed = nullptr;  ///< its columns, where somebody has packed them
};

/// acc = before * factor + p v, R x head_dim_v.
/// Types: float64 estimates of sums in dtype_acc.
/// Max error: accumulation_bound() of the sum, what p, v, the factor and acc before are off by, and the
/// roundings of rescaling, adding, dividing by p_scale, multiplying with descale_v and storing float16.
/// Valid range: sums that do not overflow their type.
Estimate accumulate(const HeadCall& call, const AccumulatorInputs& in);

/// The parts of that error at one element.
BudgetTerms accumulator_terms(const HeadCall& call, const AccumulatorInputs& in, Eigen::Index row,
                              Eigen::Index col);

}  // namespace tilescope
