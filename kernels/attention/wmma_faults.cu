#include "kernels/attention/select_build.h"
#include "kernels/attention/wmma.h"
#include "kernels/attention/wmma_body.cuh"

namespace tilescope::KERNEL_BUILD {

namespace {

using Config = WmmaConfig<wmma_fault_config.block_m, wmma_fault_config.block_n, wmma_fault_config.head_dim>;

template <Fault fault>
struct Build {
    static Launch forward(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return wmma_on_cuda<Config, fault>(args TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace

Launch wmma_cuda_fault(const AttentionArgs& args, Fault fault TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_with<FaultyKernel::wmma, Build>(fault)(args TILESCOPE_SINK_ARG(sink));
}

}  // namespace tilescope::KERNEL_BUILD
