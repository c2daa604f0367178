#pragma once

#include "kernels/attention/builds.h"

namespace tilescope {

/// What P is multiplied with before its cast to e4m3: a power of two, so that nothing is rounded. P is at
/// most 1, the largest e4m3 number 448.
inline constexpr float fp8_p_scale = 256.0f;

/// Tile sizes that the kernel fp8 is built for with mma.sync: with P in e4m3, and in float16.
inline constexpr KernelConfig fp8_mma_configs[] = {
    {64, 64, 1, 64, Dtype::f16, 1, 0, true},
    {64, 64, 1, 64, Dtype::f16, 1, 0, false},
    {64, 64, 1, 128, Dtype::f16, 1, 0, true},
    {64, 64, 1, 128, Dtype::f16, 1, 0, false},
};

/// And for sm_90a, with wgmma. Registers are left for a third consumer where the accumulator is short.
inline constexpr KernelConfig fp8_hopper_configs[] = {
    {.block_m = 192,
     .block_n = 128,
     .stages = 4,
     .head_dim = 64,
     .p_in_fp8 = true,
     .wgmma = true,
     .fewest_rows = 8193},
    {.block_m = 128,
     .block_n = 128,
     .stages = 2,
     .head_dim = 128,
     .p_in_fp8 = true,
     .wgmma = true,
     .fewest_rows = 4097},
};

/// All, in the order in which a default is looked for.
inline constexpr KernelConfig fp8_configs[] = {
    fp8_hopper_configs[0], fp8_hopper_configs[1], fp8_mma_configs[0],
    fp8_mma_configs[1],    fp8_mma_configs[2],    fp8_mma_configs[3],
};

inline constexpr FaultyBuild fp8_faults = {FaultyKernel::fp8, fp8_mma_configs[0]};

}  // namespace tilescope
