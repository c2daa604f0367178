#include "kernels/attention/stable.h"

#include "kernels/attention/entry.h"
#include "kernels/attention/scalar_cuda.cuh"

namespace tilescope::KERNEL_BUILD {

extern const CudaBuild stable = entry<ScalarKernel<StableConfig>, stable_configs, stable_faults>();

}  // namespace tilescope::KERNEL_BUILD
