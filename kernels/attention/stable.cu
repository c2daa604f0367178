#include "kernels/attention/scalar_cuda.cuh"

#include "kernels/attention/select_build.h"
#include "kernels/attention/stable.h"
#include "kernels/attention/stable_config.h"

namespace tilescope::KERNEL_BUILD {

namespace {

template <std::size_t row>
struct Build {
    static constexpr KernelConfig config = stable_configs[row];
    using Config = StableConfig<config.block_m, config.block_n, config.stages, config.head_dim>;
    static Launch forward(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return scalar_on_cuda<Config, Fault::none>(args TILESCOPE_SINK_ARG(sink));
    }
};

template <std::size_t row>
struct Symbol {
    static const void* forward() {
        return reinterpret_cast<const void*>(scalar_kernel<typename Build<row>::Config, Fault::none>);
    }
};

}  // namespace

Launch stable_cuda(const AttentionArgs& args, const KernelConfig& config TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_for<stable_configs, Build>(config)(args TILESCOPE_SINK_ARG(sink));
}

const void* stable_cuda_kernel(const KernelConfig& config) {
    return build_for<stable_configs, Symbol>(config)();
}

}  // namespace tilescope::KERNEL_BUILD
