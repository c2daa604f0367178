#pragma once

#include "kernels/attention/builds.h"

namespace tilescope {

/// Tile sizes that the kernel cublas is built for; the first one of a head_dim is its default.
inline constexpr KernelConfig cublas_configs[] = {
    {32, 64, 2, 64}, {16, 64, 1, 64}, {32, 64, 2, 128}, {16, 64, 1, 128}};

inline constexpr FaultyBuild cublas_faults = {FaultyKernel::cublas, cublas_configs[0]};

}  // namespace tilescope
