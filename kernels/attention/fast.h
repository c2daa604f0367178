#pragma once

#include "kernels/attention/builds.h"

namespace tilescope {

/// Small tiles for calls that would not fill the GPU with large ones. What follows a configuration without a
/// limit is never the default.
inline constexpr KernelConfig fast_configs[] = {
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

inline constexpr FaultyBuild fast_faults = {FaultyKernel::fast, fast_configs[2]};

}  // namespace tilescope
