#pragma once

// The fast kernel as the host calls it: on the GPU, with a fault, and without hooks.

#include "dump/hook/sink.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/faults.h"

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

/// The one build that has faults.
inline constexpr KernelConfig fast_fault_config = fast_configs[2];

namespace hooked {
Launch fast_cuda(const AttentionArgs& args, const KernelConfig& config, const Sink& sink);
Launch fast_cuda_fault(const AttentionArgs& args, Fault fault, const Sink& sink);
const void* fast_cuda_kernel(const KernelConfig& config);
}  // namespace hooked

namespace plain {
Launch fast_cuda(const AttentionArgs& args, const KernelConfig& config);
const void* fast_cuda_kernel(const KernelConfig& config);
}  // namespace plain

}  // namespace tilescope
