#include "kernels/attention/fast.h"

#include "kernels/attention/configs.h"
#include "kernels/attention/entry.h"
#include "kernels/attention/fast_body.cuh"

namespace tilescope::KERNEL_BUILD {

/// In fast_hopper.cu, which is compiled for sm_90a alone.
extern const CudaBuild fast_hopper;

inline constexpr CudaBuild fast_mma = entry<FastKernel, fast_mma_configs, fast_mma_faults>();

extern const CudaBuild fast = build_of_two<fast_hopper, fast_mma>();

}  // namespace tilescope::KERNEL_BUILD
