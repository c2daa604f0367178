#pragma once

#include <cstdint>
#include <limits>

#include "tests/oracle/backward_options.h"

namespace tilescope::test {

/// Unit roundoff of Real.
inline constexpr Real unit_roundoff_of_real = std::numeric_limits<Real>::epsilon() / 2;

/// The forward pass alone: in natural units, in one KV tile, and with 0 in rows that see nothing.
AttentionCall forward_of(const BackwardCall& call);

/// Relative error of a weight of the softmax, in units of that roundoff. A score's error is that of the sum
/// over head_dim and 10 operations more; it enters the weight and the sum of weights, which adds up the keys.
Real roundings_of_weight(const AttentionCall& forward, const DefinedRow& row);

struct DifferenceCounts {
    std::int64_t compared = 0;
    std::int64_t telling = 0;  ///< compared, and known to better than a thousandth
};

/// Holds about `count` elements of each of ds, dq, dk and dv against central differences of sum(o * dout),
/// whose error bounds are derived.
void expect_differences(const BackwardCall& call, std::int64_t count, Random& random,
                        DifferenceCounts& counts);

}  // namespace tilescope::test
