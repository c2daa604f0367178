#pragma once

// The scalar kernel on the GPU.

#include <algorithm>

#include "kernels/cuda_block.cuh"
#include "kernels/launch.cuh"
#include "kernels/scalar_body.h"

namespace tilescope::KERNEL_BUILD {

/// Thread blocks that a multiprocessor with 228 KiB of shared memory runs at once, for which hooks must leave
/// enough registers; at most four, which get 64 registers a thread.
template <class Config>
inline constexpr int resident_blocks = std::min<int>(4,
                                                     228 * 1024 / (int(sizeof(ScalarShared<Config>)) + 1024));

template <class Config, Fault fault>
__global__ void __launch_bounds__(Config::threads, resident_blocks<Config>)
    scalar_kernel(const AttentionArgs args TILESCOPE_SINK_PARAM(sink)) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<ScalarShared<Config>*>(shared_bytes);
    CudaBlock block;
    TILESCOPE_BLOCK(sink, block.batch(), block.head(), block.q_block());
    scalar_attention<Config, fault>(block, shared, args TILESCOPE_BLOCK_ARG);
}

template <class Config, Fault fault>
Launch scalar_on_cuda(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
    return launch_attention<Config>(scalar_kernel<Config, fault>, Config::kernel,
                                    sizeof(ScalarShared<Config>), args TILESCOPE_SINK_ARG(sink));
}

}  // namespace tilescope::KERNEL_BUILD
