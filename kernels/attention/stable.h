#pragma once

#include "kernels/attention/builds.h"

namespace tilescope {

/// Tile sizes that the kernel stable is built for; the first one of a head_dim is its default.
inline constexpr KernelConfig stable_configs[] = {
    {32, 64, 2, 64}, {16, 64, 1, 64}, {32, 64, 2, 128}, {16, 64, 1, 128}};

inline constexpr FaultyBuild stable_faults = {FaultyKernel::stable, stable_configs[0]};

}  // namespace tilescope
