#pragma once

#include <span>

#include "oracle/estimate.h"
#include "oracle/head_call.h"

namespace tilescope {

/// Running statistics of the rows of a query block: m is R x 1, l is R x l_lanes, acc is R x head_dim_v.
struct RunningState {
    Estimate m;
    Estimate l;
    Estimate acc;
};

/// Before the first KV tile: m = -inf, l = 0, acc = 0; where the sink comes first, m = sink and l = 1. A
/// split that is not the first starts without it.
RunningState initial_state(const HeadCall& call, std::int64_t rows, bool first_split);

/// Roundings of accumulate() beside those of the sum p v: rescaling acc, adding the tile's product where that
/// is summed on its own, dividing by p_scale, multiplying with descale_v, and the store of a float16
/// accumulator.
struct AccumulatorRoundings {
    double of_rescaled = 0;  ///< relative to the rescaled accumulator
    double of_sum = 0;       ///< relative to the result
    double near_zero = 0;    ///< absolute
};
AccumulatorRoundings accumulator_roundings(const HeadCall& call);

/// acc = acc_before * factor + p v. Keys whose score is -inf add nothing, whatever v holds there. `v_error`
/// is relative.
Estimate accumulate(const HeadCall& call, const Estimate& acc_before, const Estimate& factor,
                    const Estimate& p, const Estimate& s, const Matrix& v, double v_error);

/// The states of all splits as one, of one lane: rescaled to the largest m and added up. Bound: every split's
/// logarithm and exponential, and a rounding a split.
RunningState combine(const HeadCall& call, std::span<const RunningState> splits);

/// O = acc / l, R x head_dim_v, with the bound of the store to dtype_o. Takes a state of one lane.
Estimate output(const HeadCall& call, const RunningState& state);

/// lse = m + ln l, R x 1, natural logarithm. Bound: the logarithm, and the roundings of adding the two in any
/// units.
Estimate log_sum_exp(const HeadCall& call, const RunningState& state);

}  // namespace tilescope
