#include "kernels/attention/fp8.h"

#include "kernels/attention/fp8_body.cuh"
#include "kernels/attention/select_build.h"

namespace tilescope::KERNEL_BUILD {

namespace {

template <std::size_t row>
struct Build {
    static constexpr KernelConfig config = fp8_configs[row];
    using Config = Fp8Config<config.block_m, config.block_n, config.head_dim, config.p_in_fp8>;
    static Launch forward(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return fp8_on_cuda<Config, Fault::none>(args TILESCOPE_SINK_ARG(sink));
    }
};

template <std::size_t row>
struct Symbol {
    static const void* forward() {
        return reinterpret_cast<const void*>(fp8_kernel<typename Build<row>::Config, Fault::none>);
    }
};

}  // namespace

Launch fp8_cuda(const AttentionArgs& args, const KernelConfig& config TILESCOPE_HOST_SINK_PARAM(sink)) {
    return build_for<fp8_configs, Build>(config)(args TILESCOPE_SINK_ARG(sink));
}

const void* fp8_cuda_kernel(const KernelConfig& config) {
    return build_for<fp8_configs, Symbol>(config)();
}

}  // namespace tilescope::KERNEL_BUILD
