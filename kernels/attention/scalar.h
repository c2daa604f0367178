#pragma once

#include "kernels/attention/builds.h"

namespace tilescope {

/// Tile sizes that the kernel scalar is built for; the first one of a head_dim is its default.
inline constexpr KernelConfig scalar_configs[] = {
    {32, 64, 2, 64},  {32, 64, 1, 64},  {32, 32, 2, 64},  {32, 32, 1, 64},
    {16, 64, 2, 64},  {16, 64, 1, 64},  {48, 64, 2, 64},  {48, 64, 1, 64},
    {32, 64, 2, 128}, {32, 64, 1, 128}, {32, 32, 2, 128}, {32, 32, 1, 128},
    {16, 64, 2, 128}, {16, 64, 1, 128}, {48, 64, 2, 128}, {48, 64, 1, 128},
};

inline constexpr FaultyBuild scalar_faults = {FaultyKernel::scalar, scalar_configs[0]};

}  // namespace tilescope
