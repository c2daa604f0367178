#include "kernels/attention/scalar_cuda.cuh"
#include "kernels/attention/select_build.h"
#include "kernels/attention/stable.h"
#include "kernels/attention/stable_config.h"

namespace tilescope::KERNEL_BUILD {

namespace {

using Config = StableConfig<stable_fault_config.block_m, stable_fault_config.block_n,
                            stable_fault_config.stages, stable_fault_config.head_dim>;

template <Fault fault>
struct Build {
    static Launch forward(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return scalar_on_cuda<Config, fault>(args TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace

Launch stable_cuda_fault(const AttentionArgs& args, Fault fault TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_with<FaultyKernel::stable, Build>(fault)(args TILESCOPE_SINK_ARG(sink));
}

}  // namespace tilescope::KERNEL_BUILD
