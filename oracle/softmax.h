#pragma once

#include "oracle/estimate.h"
#include "oracle/head_call.h"

namespace tilescope {

/// Running maximum after the tile, R x 1. A maximum rounds nothing; the bound is that of converting it, where
/// m is kept in other units than s, and half the stale threshold, where m may stay behind.
Estimate row_max(const HeadCall& call, const Estimate& m_before, const Estimate& s);

/// P = exp(s - m) before any cast, R x N; 0 where s is -inf. In the backward pass lse is in the place of m.
Estimate probabilities(const HeadCall& call, const Estimate& s, const Estimate& m);

/// P after its cast to `dtype`, in which it is multiplied with p_scale. Numbers that are exact are rounded;
/// estimates get the bound of rounding.
Estimate cast_probabilities(const HeadCall& call, Estimate p, Dtype dtype);

/// The same for any estimate that is multiplied with `scale` in the cast.
Estimate cast_scaled(const HeadCall& call, Estimate estimate, Dtype dtype, double scale, Overflow overflow);

/// exp(m_before - m), R x 1: the factor that l and acc are rescaled by; 0 where m_before is -inf.
Estimate rescale_factor(const HeadCall& call, const Estimate& m_before, const Estimate& m);

/// What row_sum() adds to the rounding of the sum itself: rescaling, adding the tile, and taking p_scale off.
double row_sum_roundings(const HeadCall& call, double rescaled, double l);

/// l = l_before * factor + row sum of p, R x l_lanes: of each lane's columns.
Estimate row_sum(const HeadCall& call, const Estimate& l_before, const Estimate& factor, const Estimate& p);

}  // namespace tilescope
