#include "kernels/attention/fp8.h"

#include "kernels/attention/entry.h"
#include "kernels/attention/fp8_body.cuh"

namespace tilescope::KERNEL_BUILD {

/// In fp8_hopper.cu, which is compiled for sm_90a alone.
extern const CudaBuild fp8_hopper;

inline constexpr CudaBuild fp8_mma = entry<Fp8Kernel, fp8_mma_configs, fp8_faults>();

const CudaBuild& fp8_build(const KernelConfig& config) {
    return config.wgmma ? fp8_hopper : fp8_mma;
}

extern const CudaBuild fp8 = {
    [](const AttentionArgs& args, const KernelConfig& config, Fault fault, const Sink& sink) {
        return fp8_build(config).launch(args, config, fault, sink);
    },
#ifdef PLANTED_FAULTS
    nullptr
#else
    [](const KernelConfig& config) { return fp8_build(config).function(config); }
#endif
};

}  // namespace tilescope::KERNEL_BUILD
