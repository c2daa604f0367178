#pragma once

// The scalar kernel on the GPU.

#include "kernels/attention/cuda_block.cuh"
#include "kernels/attention/launch.cuh"
#include "kernels/attention/scalar_body.h"

namespace tilescope::KERNEL_BUILD {

template <class Config>
__global__ void __launch_bounds__(Config::threads, resident_blocks<ScalarShared<Config>>)
    scalar_kernel(const AttentionArgs args TILESCOPE_SINK_PARAM(sink)) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<ScalarShared<Config>*>(shared_bytes);
    CudaBlock block;
    TILESCOPE_BLOCK(sink, block.batch(), block.head(), block.q_block());
    scalar_attention<Config>(block, shared, args TILESCOPE_BLOCK_ARG);
}

template <template <int, int, int, int> class ScalarConfig>
struct ScalarKernel {
    template <KernelConfig config>
    using ConfigOf = ScalarConfig<config.block_m, config.block_n, config.stages, config.head_dim>;

    template <class Config>
    static auto function() {
        return scalar_kernel<Config>;
    }

    template <class Config>
    static Launch launch(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return launch_attention<Config>(function<Config>(), Config::kernel, sizeof(ScalarShared<Config>),
                                        args TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace tilescope::KERNEL_BUILD
