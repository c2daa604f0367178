#include "kernels/attention/wmma.h"

#include "kernels/attention/select_build.h"
#include "kernels/attention/wmma_body.cuh"

namespace tilescope::KERNEL_BUILD {

namespace {

template <std::size_t row>
struct Build {
    static constexpr KernelConfig config = wmma_configs[row];
    using Config = WmmaConfig<config.block_m, config.block_n, config.head_dim>;
    static Launch forward(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return wmma_on_cuda<Config, Fault::none>(args TILESCOPE_SINK_ARG(sink));
    }
};

template <std::size_t row>
struct Symbol {
    static const void* forward() {
        return reinterpret_cast<const void*>(wmma_kernel<typename Build<row>::Config, Fault::none>);
    }
};

}  // namespace

Launch wmma_cuda(const AttentionArgs& args, const KernelConfig& config TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_for<wmma_configs, Build>(config)(args TILESCOPE_SINK_ARG(sink));
}

const void* wmma_cuda_kernel(const KernelConfig& config) {
    return build_for<wmma_configs, Symbol>(config)();
}

}  // namespace tilescope::KERNEL_BUILD
