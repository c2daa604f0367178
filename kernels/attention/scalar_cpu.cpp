#include "kernels/attention/scalar_cpu.h"

#include "kernels/attention/scalar.h"
#include "kernels/attention/select_build.h"

namespace tilescope::KERNEL_BUILD {

namespace {

template <std::size_t row>
struct Build {
    static constexpr KernelConfig config = scalar_configs[row];
    static Launch forward(const AttentionArgs& args,
                          std::uint32_t shared_word TILESCOPE_HOST_SINK_PARAM(sink)) {
        return scalar_on_cpu<ScalarConfig<config.block_m, config.block_n, config.stages, config.head_dim>,
                             Fault::none>(args, shared_word TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace

Launch scalar_cpu(const AttentionArgs& args, const KernelConfig& config,
                  std::uint32_t shared_word TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_for<scalar_configs, Build>(config)(args, shared_word TILESCOPE_SINK_ARG(sink));
}

}  // namespace tilescope::KERNEL_BUILD
