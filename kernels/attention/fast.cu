#include "kernels/attention/fast.h"

#include "kernels/attention/entry.h"
#include "kernels/attention/fast_body.cuh"

namespace tilescope::KERNEL_BUILD {

/// In fast_hopper.cu, which is compiled for sm_90a alone.
extern const CudaBuild fast_hopper;

inline constexpr CudaBuild fast_mma = entry<FastKernel, fast_mma_configs, fast_mma_faults>();

const CudaBuild& fast_build(const KernelConfig& config) {
    return config.wgmma ? fast_hopper : fast_mma;
}

extern const CudaBuild fast = {
    [](const AttentionArgs& args, const KernelConfig& config, Fault fault, const Sink& sink) {
        return fast_build(config).launch(args, config, fault, sink);
    },
#ifdef PLANTED_FAULTS
    nullptr
#else
    [](const KernelConfig& config) { return fast_build(config).function(config); }
#endif
};

}  // namespace tilescope::KERNEL_BUILD
