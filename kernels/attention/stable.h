#pragma once

// The scalar kernel with guards, as the host calls it.

#include <cstdint>

#include "dump/hook/sink.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/faults.h"

namespace tilescope {

/// Tile sizes that the kernel is built for; the first one of a head_dim is its default.
inline constexpr KernelConfig stable_configs[] = {
    {32, 64, 2, 64}, {16, 64, 1, 64}, {32, 64, 2, 128}, {16, 64, 1, 128}};

/// The one build that has faults.
inline constexpr KernelConfig stable_fault_config = stable_configs[0];

namespace hooked {
Launch stable_cpu(const AttentionArgs& args, const KernelConfig& config, std::uint32_t shared_word,
                  const Sink& sink);
Launch stable_cpu_fault(const AttentionArgs& args, Fault fault, std::uint32_t shared_word, const Sink& sink);
Launch stable_cuda(const AttentionArgs& args, const KernelConfig& config, const Sink& sink);
Launch stable_cuda_fault(const AttentionArgs& args, Fault fault, const Sink& sink);
const void* stable_cuda_kernel(const KernelConfig& config);
}  // namespace hooked

namespace plain {
Launch stable_cuda(const AttentionArgs& args, const KernelConfig& config);
const void* stable_cuda_kernel(const KernelConfig& config);
}  // namespace plain

}  // namespace tilescope
