#pragma once

#include "dump/schema/thread_layout.h"
#include "kernels/attention/attention_args.h"

namespace tilescope {

// Which threads own the elements that a build of a kernel records: those in whose registers a stage is
// computed, and of q, k and v those that copy them to shared memory.

/// Of the kernels scalar, stable and cublas.
ThreadLayouts scalar_threads(const KernelConfig& config);
/// Of wmma. Its accumulators are in the fragment wmma_16x16_f32, which the capture asks the GPU for.
ThreadLayouts wmma_threads(const KernelConfig& config);
ThreadLayouts fast_threads(const KernelConfig& config);
ThreadLayouts fp8_threads(const KernelConfig& config);

}  // namespace tilescope
