#pragma once

#include "kernels/attention/builds.h"

namespace tilescope {

/// What P is multiplied with before its cast to e4m3: a power of two, so that nothing is rounded. P is at
/// most 1, the largest e4m3 number 448.
inline constexpr float fp8_p_scale = 256.0f;

/// Tile sizes that the kernel fp8 is built for: with P in e4m3, and in float16.
inline constexpr KernelConfig fp8_configs[] = {
    {64, 64, 1, 64, Dtype::f16, 1, 0, true},
    {64, 64, 1, 64, Dtype::f16, 1, 0, false},
    {64, 64, 1, 128, Dtype::f16, 1, 0, true},
    {64, 64, 1, 128, Dtype::f16, 1, 0, false},
};

inline constexpr FaultyBuild fp8_faults = {FaultyKernel::fp8, fp8_configs[0]};

}  // namespace tilescope
