#include "kernels/attention/scalar.h"

#include "kernels/attention/entry.h"
#include "kernels/attention/scalar_cuda.cuh"

namespace tilescope::KERNEL_BUILD {

extern const CudaBuild scalar = entry<ScalarKernel<ScalarConfig>, scalar_configs, scalar_faults>();

}  // namespace tilescope::KERNEL_BUILD
