#include "kernels/attention/fast.h"

#include "kernels/attention/entry.h"
#include "kernels/attention/fast_body.cuh"

namespace tilescope::KERNEL_BUILD {

extern const CudaBuild fast = entry<FastKernel, fast_configs, fast_faults>();

}  // namespace tilescope::KERNEL_BUILD
