#pragma once

#include <span>

#include "oracle/formula/budget_terms.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"

namespace tilescope {

/// Running statistics of the rows of a query block: m is R x 1, l is R x l_lanes, acc is R x head_dim_v.
struct RunningState {
    Estimate m;
    Estimate l;
    Estimate acc;
};

/// What o or lse holds in a row without keys: exactly this.
double empty_value(EmptyRow empty);

/// Before the first KV tile: m = -inf, l = 0, acc = 0; where the sink comes first, m = sink and l = 1. A
/// split that is not the first starts without it.
RunningState initial_state(const HeadCall& call, std::int64_t rows, bool first_split);

/// The states of all splits as one, of one lane: rescaled to the largest m and added up. Bound: every split's
/// logarithm and exponential, a rounding a split, and that of its o to dtype_partial_o.
RunningState combine(const HeadCall& call, std::span<const RunningState> splits);

/// The same of splits and lanes; a state that is whole already stays as it is.
RunningState whole_state(const HeadCall& call, std::span<const RunningState> splits);

/// O = acc / l, R x head_dim_v, with the bound of the store to dtype_o. Takes a state of one lane.
Estimate output(const HeadCall& call, const RunningState& state);

/// lse = m + ln l, R x 1, natural logarithm. Bound: the logarithm, and the roundings of adding the two in any
/// units.
Estimate log_sum_exp(const HeadCall& call, const RunningState& state);

/// The parts of their errors at one element; `splits` are the states after the last tile of each split.
BudgetTerms output_terms(const HeadCall& call, std::span<const RunningState> splits, Eigen::Index row,
                         Eigen::Index col);
BudgetTerms log_sum_exp_terms(const HeadCall& call, std::span<const RunningState> splits, Eigen::Index row);

}  // namespace tilescope
