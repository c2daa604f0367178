#include "kernels/attention/scalar.h"
#include "kernels/attention/scalar_cuda.cuh"
#include "kernels/attention/select_build.h"

namespace tilescope::KERNEL_BUILD {

namespace {

using Config = ScalarConfig<scalar_fault_config.block_m, scalar_fault_config.block_n,
                            scalar_fault_config.stages, scalar_fault_config.head_dim>;

template <Fault fault>
struct Build {
    static Launch forward(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return scalar_on_cuda<Config, fault>(args TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace

Launch scalar_cuda_fault(const AttentionArgs& args, Fault fault TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_with<FaultyKernel::scalar, Build>(fault)(args TILESCOPE_SINK_ARG(sink));
}

}  // namespace tilescope::KERNEL_BUILD
