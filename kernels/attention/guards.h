#pragma once

#include <math.h>

namespace tilescope {

/// What a softmax does to numbers that it does not trust. The textbook trusts all of them.
struct NoGuards {
    static constexpr bool replaces_non_finite = false;  ///< a score that is NaN or infinite becomes -inf
    static constexpr float least_exponent = -INFINITY;  ///< exp is given nothing smaller for a visible key
    static constexpr float epsilon = 0.0f;  ///< added to the row sum that the output is divided by
};

/// Those of the kernel `stable`. None bites on finite scores within 80 of their row's maximum: the row sum is
/// at least 1 where a row sees a key, and 1 + 1e-8 is 1 in float32.
struct StableGuards {
    static constexpr bool replaces_non_finite = true;
    static constexpr float least_exponent = -80.0f;
    static constexpr float epsilon = 1e-8f;
};

}  // namespace tilescope
