#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/attention/builds.h"

namespace tilescope {

/// A configuration for sm_90a.
constexpr KernelConfig fast_wgmma(int stages, int head_dim, Dtype dtype, std::int64_t fewest_rows) {
    return {.block_m = 128,
            .block_n = 128,
            .stages = stages,
            .head_dim = head_dim,
            .dtype = dtype,
            .wgmma = true,
            .fewest_rows = fewest_rows};
}

/// Small tiles for calls that would not fill the GPU with large ones. What follows a configuration without a
/// limit is never the default.
inline constexpr KernelConfig fast_configs[] = {
    fast_wgmma(2, 64, Dtype::f16, 8193),
    fast_wgmma(2, 128, Dtype::f16, 4097),
    fast_wgmma(2, 64, Dtype::bf16, 8193),
    fast_wgmma(2, 128, Dtype::bf16, 4097),
    {32, 64, 2, 64, Dtype::f16, 2, 8192},
    {128, 128, 2, 64, Dtype::f16},
    {64, 64, 2, 64, Dtype::f16},
    {32, 32, 2, 128, Dtype::f16, 2, 8192},
    {64, 64, 2, 128, Dtype::f16, 1, 16384},
    {128, 64, 2, 128, Dtype::f16},
    {32, 64, 2, 64, Dtype::bf16, 2, 8192},
    {128, 128, 2, 64, Dtype::bf16},
    {64, 64, 2, 64, Dtype::bf16},
    {32, 32, 2, 128, Dtype::bf16, 2, 8192},
    {64, 64, 2, 128, Dtype::bf16, 1, 16384},
    {128, 64, 2, 128, Dtype::bf16},
};

/// Those of fast_configs that are compiled with wgmma, or the others.
template <std::size_t count, bool wgmma>
constexpr std::array<KernelConfig, count> fast_configs_with() {
    std::array<KernelConfig, count> found;
    std::size_t next = 0;
    for (const KernelConfig& config : fast_configs) {
        if (config.wgmma == wgmma) found[next++] = config;
    }
    return found;
}
inline constexpr auto fast_hopper_configs = fast_configs_with<4, true>();
inline constexpr auto fast_mma_configs = fast_configs_with<std::size(fast_configs) - 4, false>();

inline constexpr FaultyBuild fast_mma_faults = {FaultyKernel::fast, fast_mma_configs[2]};
inline constexpr FaultyBuild fast_hopper_faults = {FaultyKernel::fast_wgmma, fast_hopper_configs[0]};
inline constexpr FaultyBuild fast_faults[] = {fast_mma_faults, fast_hopper_faults};

}  // namespace tilescope
