#include "kernels/attention/fp8.h"

#include "kernels/attention/entry.h"
#include "kernels/attention/fp8_body.cuh"

namespace tilescope::KERNEL_BUILD {

extern const CudaBuild fp8 = entry<Fp8Kernel, fp8_configs, fp8_faults>();

}  // namespace tilescope::KERNEL_BUILD
