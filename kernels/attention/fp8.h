#pragma once

// The fp8 kernel as the host calls it: on the GPU, with a fault, and without hooks.

#include "dump/hook/sink.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/faults.h"

namespace tilescope {

/// What P is multiplied with before its cast to e4m3: a power of two, so that nothing is rounded. P is at
/// most 1, the largest e4m3 number 448.
inline constexpr float fp8_p_scale = 256.0f;

/// Tile sizes that the kernel is built for: with P in e4m3, and in float16.
inline constexpr KernelConfig fp8_configs[] = {
    {64, 64, 1, 64, Dtype::f16, 1, 0, true},
    {64, 64, 1, 64, Dtype::f16, 1, 0, false},
    {64, 64, 1, 128, Dtype::f16, 1, 0, true},
    {64, 64, 1, 128, Dtype::f16, 1, 0, false},
};

/// The one build that has faults.
inline constexpr KernelConfig fp8_fault_config = fp8_configs[0];

namespace hooked {
Launch fp8_cuda(const AttentionArgs& args, const KernelConfig& config, const Sink& sink);
Launch fp8_cuda_fault(const AttentionArgs& args, Fault fault, const Sink& sink);
const void* fp8_cuda_kernel(const KernelConfig& config);
}  // namespace hooked

namespace plain {
Launch fp8_cuda(const AttentionArgs& args, const KernelConfig& config);
const void* fp8_cuda_kernel(const KernelConfig& config);
}  // namespace plain

}  // namespace tilescope
