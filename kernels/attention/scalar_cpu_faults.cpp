#include "kernels/attention/scalar.h"
#include "kernels/attention/scalar_cpu.h"
#include "kernels/attention/select_build.h"

namespace tilescope::KERNEL_BUILD {

namespace {

using Config = ScalarConfig<scalar_fault_config.block_m, scalar_fault_config.block_n,
                            scalar_fault_config.stages, scalar_fault_config.head_dim>;

template <Fault fault>
struct Build {
    static Launch forward(const AttentionArgs& args,
                          std::uint32_t shared_word TILESCOPE_HOST_SINK_PARAM(sink)) {
        return scalar_on_cpu<Config, fault>(args, shared_word TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace

Launch scalar_cpu_fault(const AttentionArgs& args, Fault fault,
                        std::uint32_t shared_word TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_with<FaultyKernel::scalar, Build>(fault)(args, shared_word TILESCOPE_SINK_ARG(sink));
}

}  // namespace tilescope::KERNEL_BUILD
