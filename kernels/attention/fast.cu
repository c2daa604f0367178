#include "kernels/attention/fast.h"

#include "kernels/attention/fast_body.cuh"
#include "kernels/attention/select_build.h"

namespace tilescope::KERNEL_BUILD {

namespace {

template <std::size_t row>
struct Build {
    static constexpr KernelConfig config = fast_configs[row];
    using Config = FastConfig<ElementOf<config.dtype>, config.block_m, config.block_n, config.stages,
                              config.splits, config.head_dim>;
    static Launch forward(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return fast_on_cuda<Config, Fault::none>(args TILESCOPE_SINK_ARG(sink));
    }
};

template <std::size_t row>
struct Symbol {
    static const void* forward() {
        return reinterpret_cast<const void*>(fast_kernel<typename Build<row>::Config, Fault::none>);
    }
};

}  // namespace

Launch fast_cuda(const AttentionArgs& args, const KernelConfig& config TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_for<fast_configs, Build>(config)(args TILESCOPE_SINK_ARG(sink));
}

const void* fast_cuda_kernel(const KernelConfig& config) {
    return build_for<fast_configs, Symbol>(config)();
}

}  // namespace tilescope::KERNEL_BUILD
