#include "kernels/attention/fast.h"
#include "kernels/attention/fast_body.cuh"
#include "kernels/attention/select_build.h"

namespace tilescope::KERNEL_BUILD {

namespace {

using Config =
    FastConfig<ElementOf<fast_fault_config.dtype>, fast_fault_config.block_m, fast_fault_config.block_n,
               fast_fault_config.stages, fast_fault_config.splits, fast_fault_config.head_dim>;

template <Fault fault>
struct Build {
    static Launch forward(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return fast_on_cuda<Config, fault>(args TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace

Launch fast_cuda_fault(const AttentionArgs& args, Fault fault TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_with<FaultyKernel::fast, Build>(fault)(args TILESCOPE_SINK_ARG(sink));
}

}  // namespace tilescope::KERNEL_BUILD
