#include "kernels/attention/wmma.h"

#include "kernels/attention/entry.h"
#include "kernels/attention/wmma_body.cuh"

namespace tilescope::KERNEL_BUILD {

extern const CudaBuild wmma = entry<WmmaKernel, wmma_configs, wmma_faults>();

}  // namespace tilescope::KERNEL_BUILD
