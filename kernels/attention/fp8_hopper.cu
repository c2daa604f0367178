#include "kernels/attention/entry.h"
#include "kernels/attention/fast_hopper_body.cuh"
#include "kernels/attention/fp8.h"

namespace tilescope::KERNEL_BUILD {

struct Fp8HopperKernel : FastHopperKernel {
    template <KernelConfig config>
    using ConfigOf = HopperConfig<E4m3, config.block_m, config.block_n, config.stages, config.head_dim>;
};

extern const CudaBuild fp8_hopper = entry<Fp8HopperKernel, fp8_hopper_configs>();

}  // namespace tilescope::KERNEL_BUILD
