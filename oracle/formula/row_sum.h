#pragma once

#include "oracle/formula/budget_terms.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"

namespace tilescope {

/// l = l_before * factor + row sum of p, R x l_lanes: of each lane's columns.
/// Types: float64 estimates of a float32 sum, in any order.
/// Max error: those of l_before, factor and p, half an ulp of each partial sum (less with the probability of
/// the rounding model), rescaling, adding the tile and taking p_scale off, and flush_to_zero.
/// Valid range: sums that do not overflow float32.
Estimate row_sum(const HeadCall& call, const Estimate& l_before, const Estimate& factor, const Estimate& p);

/// The parts of its error in one row and lane; `name_of_p` is what p's own share is called.
BudgetTerms sum_terms(const HeadCall& call, const Estimate& l_before, const Estimate& factor,
                      const Estimate& p, const char* name_of_p, Eigen::Index row, Eigen::Index lane);

/// What `statistic`, l or acc, brings along from the tile before, and what the factor adds.
void add_rescaling_terms(double before, double before_error, double factor, double factor_error,
                         const char* statistic, BudgetTerms& terms);

}  // namespace tilescope
