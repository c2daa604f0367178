#pragma once

// The scalar kernel as the host calls it: on the CPU, on the GPU, with a fault, and without hooks.

#include <cstdint>

#include "dump/hook/sink.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/faults.h"

namespace tilescope {

/// Tile sizes that the kernel is built for; the first one of a head_dim is its default.
inline constexpr KernelConfig scalar_configs[] = {
    {32, 64, 2, 64},  {32, 64, 1, 64},  {32, 32, 2, 64},  {32, 32, 1, 64},
    {16, 64, 2, 64},  {16, 64, 1, 64},  {48, 64, 2, 64},  {48, 64, 1, 64},
    {32, 64, 2, 128}, {32, 64, 1, 128}, {32, 32, 2, 128}, {32, 32, 1, 128},
    {16, 64, 2, 128}, {16, 64, 1, 128}, {48, 64, 2, 128}, {48, 64, 1, 128},
};

/// The one build that has faults.
inline constexpr KernelConfig scalar_fault_config = scalar_configs[0];

namespace hooked {
Launch scalar_cpu(const AttentionArgs& args, const KernelConfig& config, std::uint32_t shared_word,
                  const Sink& sink);
Launch scalar_cpu_fault(const AttentionArgs& args, Fault fault, std::uint32_t shared_word, const Sink& sink);
Launch scalar_cuda(const AttentionArgs& args, const KernelConfig& config, const Sink& sink);
Launch scalar_cuda_fault(const AttentionArgs& args, Fault fault, const Sink& sink);
const void* scalar_cuda_kernel(const KernelConfig& config);
}  // namespace hooked

namespace plain {
Launch scalar_cuda(const AttentionArgs& args, const KernelConfig& config);
const void* scalar_cuda_kernel(const KernelConfig& config);
}  // namespace plain

}  // namespace tilescope
