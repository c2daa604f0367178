#pragma once

#include "kernels/attention/scalar_body.h"

namespace tilescope {

/// The scalar kernel with guards in its softmax.
template <int block_m_, int block_n_, int stages_, int head_dim_>
struct StableConfig : ScalarConfig<block_m_, block_n_, stages_, head_dim_> {
    using Guards = StableGuards;
    static constexpr const char* kernel = "stable";
};

}  // namespace tilescope
