#include "kernels/attention/entry.h"
#include "kernels/attention/fast.h"
#include "kernels/attention/fast_hopper_body.cuh"

namespace tilescope::KERNEL_BUILD {

extern const CudaBuild fast_hopper = entry<FastHopperKernel, fast_hopper_configs, fast_hopper_faults>();

}  // namespace tilescope::KERNEL_BUILD
