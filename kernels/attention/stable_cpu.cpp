#include "kernels/attention/scalar_cpu.h"

#include "kernels/attention/select_build.h"
#include "kernels/attention/stable.h"
#include "kernels/attention/stable_config.h"

namespace tilescope::KERNEL_BUILD {

namespace {

template <std::size_t row>
struct Build {
    static constexpr KernelConfig config = stable_configs[row];
    static Launch forward(const AttentionArgs& args,
                          std::uint32_t shared_word TILESCOPE_HOST_SINK_PARAM(sink)) {
        return scalar_on_cpu<StableConfig<config.block_m, config.block_n, config.stages, config.head_dim>,
                             Fault::none>(args, shared_word TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace

Launch stable_cpu(const AttentionArgs& args, const KernelConfig& config,
                  std::uint32_t shared_word TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_for<stable_configs, Build>(config)(args, shared_word TILESCOPE_SINK_ARG(sink));
}

}  // namespace tilescope::KERNEL_BUILD
