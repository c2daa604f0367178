#pragma once

// The WMMA kernel as the host calls it: on the GPU, with a fault, and without hooks.

#include "dump/hook/sink.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/faults.h"

namespace tilescope {

/// Tile sizes that the kernel is built for, one for each head_dim.
inline constexpr KernelConfig wmma_configs[] = {{64, 64, 1, 64}, {32, 64, 1, 128}};

/// The one build that has faults.
inline constexpr KernelConfig wmma_fault_config = wmma_configs[0];

namespace hooked {
Launch wmma_cuda(const AttentionArgs& args, const KernelConfig& config, const Sink& sink);
Launch wmma_cuda_fault(const AttentionArgs& args, Fault fault, const Sink& sink);
const void* wmma_cuda_kernel(const KernelConfig& config);
}  // namespace hooked

namespace plain {
Launch wmma_cuda(const AttentionArgs& args, const KernelConfig& config);
const void* wmma_cuda_kernel(const KernelConfig& config);
}  // namespace plain

}  // namespace tilescope
