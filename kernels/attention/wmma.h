#pragma once

#include "kernels/attention/builds.h"

namespace tilescope {

/// Tile sizes that the kernel wmma is built for, one for each head_dim.
inline constexpr KernelConfig wmma_configs[] = {{64, 64, 1, 64}, {32, 64, 1, 128}};

inline constexpr FaultyBuild wmma_faults = {FaultyKernel::wmma, wmma_configs[0]};

}  // namespace tilescope
