#include "kernels/attention/cublas.h"
#include "kernels/attention/cublas_cuda.cuh"
#include "kernels/attention/select_build.h"

namespace tilescope::KERNEL_BUILD {

namespace {

using Config = CublasConfig<cublas_fault_config.block_m, cublas_fault_config.block_n,
                            cublas_fault_config.stages, cublas_fault_config.head_dim>;

template <Fault fault>
struct Build {
    static Launch forward(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return cublas_on_cuda<Config, fault>(args TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace

Launch cublas_cuda_fault(const AttentionArgs& args, Fault fault TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_with<FaultyKernel::cublas, Build>(fault)(args TILESCOPE_SINK_ARG(sink));
}

}  // namespace tilescope::KERNEL_BUILD
