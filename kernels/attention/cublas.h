#pragma once

// The kernel cublas as the host calls it: q k^T of all heads by cuBLAS, the rest by the scalar kernel.

#include "dump/hook/sink.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/faults.h"

namespace tilescope {

/// Tile sizes that the kernel is built for; the first one of a head_dim is its default.
inline constexpr KernelConfig cublas_configs[] = {
    {32, 64, 2, 64}, {16, 64, 1, 64}, {32, 64, 2, 128}, {16, 64, 1, 128}};

/// The one build that has faults.
inline constexpr KernelConfig cublas_fault_config = cublas_configs[0];

namespace hooked {
Launch cublas_cuda(const AttentionArgs& args, const KernelConfig& config, const Sink& sink);
Launch cublas_cuda_fault(const AttentionArgs& args, Fault fault, const Sink& sink);
const void* cublas_cuda_kernel(const KernelConfig& config);
}  // namespace hooked

namespace plain {
Launch cublas_cuda(const AttentionArgs& args, const KernelConfig& config);
const void* cublas_cuda_kernel(const KernelConfig& config);
}  // namespace plain

}  // namespace tilescope
