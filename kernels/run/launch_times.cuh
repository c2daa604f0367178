#pragma once

// How long launches take that are compared with each other.

#include <cuda_runtime.h>

#include <functional>
#include <vector>

namespace tilescope {

struct TimedLaunch {
    std::function<void()> launch;
    /// What it launches in: events of another stream would time the way from one to the other.
    cudaStream_t stream = cudaStreamLegacy;
};

/// Kernels without hooks are compiled to be launched in the thread's own stream.
inline const cudaStream_t stream_without_hooks = cudaStreamPerThread;

/// Milliseconds that the GPU spends on each of the launches: the median of `rounds`, an odd number, after a
/// warm-up. They take turns in every round, so that clocks and whatever else happens are the same for all,
/// and all rounds are enqueued before the first is waited for. Errors: Error when CUDA refuses.
std::vector<double> median_times(const std::vector<TimedLaunch>& launches, int rounds);

}  // namespace tilescope
