#pragma once

// Whether a kernel makes a mistake. The faulty build is compiled once for all of them, and told at run time which one.

#include "kernels/attention/faults.h"
#include "kernels/attention/platform.h"

// In other builds it is the literal `false`, and nothing is left of a mistake.
#ifdef PLANTED_FAULTS
#define FAULT(mistake) (played_fault() == Fault::mistake)
#else
#define FAULT(mistake) false
#endif

#ifdef PLANTED_FAULTS
namespace tilescope::KERNEL_BUILD {

/// The mistake of what the calling thread launches or, on the CPU, of the thread block that it plays.
inline thread_local Fault host_fault = Fault::none;

#ifdef __CUDACC__
/// The mistake of the kernels of a source. All threads read the same: a branch that asks for it is uniform.
static __constant__ Fault device_fault = Fault::none;

__host__ __device__ __forceinline__ Fault played_fault() {
#ifdef __CUDA_ARCH__
    return device_fault;
#else
    return host_fault;
#endif
}
#else
inline Fault played_fault() {
    return host_fault;
}
#endif

}  // namespace tilescope::KERNEL_BUILD
#endif
