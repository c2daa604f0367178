#include "kernels/attention/fp8.h"

#include "kernels/attention/configs.h"
#include "kernels/attention/entry.h"
#include "kernels/attention/fp8_body.cuh"

namespace tilescope::KERNEL_BUILD {

/// In fp8_hopper.cu, which is compiled for sm_90a alone.
extern const CudaBuild fp8_hopper;

inline constexpr CudaBuild fp8_mma = entry<Fp8Kernel, fp8_mma_configs, fp8_faults>();

extern const CudaBuild fp8 = build_of_two<fp8_hopper, fp8_mma>();

}  // namespace tilescope::KERNEL_BUILD
