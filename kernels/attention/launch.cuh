#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "dump/schema/error.h"
#include "kernels/attention/attention_args.h"

namespace tilescope {

/// Thread blocks that a multiprocessor with 228 KiB of shared memory runs at once, for which hooks must leave
/// enough registers; at most four, which get 64 registers a thread where a block has 256.
template <class SharedMemory>
inline constexpr int resident_blocks = std::min<int>(4, 228 * 1024 / (int(sizeof(SharedMemory)) + 1024));

/// Throws what is to be said of a launch that was refused.
inline void check_launch(cudaError_t error, const char* name) {
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion) {
        throw Error(
            std::string("the kernel is not compiled for this GPU (") + cudaGetErrorString(error) + ")", name,
            "build with -DCMAKE_CUDA_ARCHITECTURES=native on this machine");
    }
    if (error != cudaSuccess) {
        throw Error(std::string("the launch failed (") + cudaGetErrorString(error) + ")", name,
                    "choose a smaller shape or another configuration");
    }
}

/// Launches `kernel` with a grid of thread blocks.
/// Errors: Error when the launch is refused. What goes wrong in the kernel is seen by who waits for it.
template <class Kernel, class... Arguments>
Launch launch_grid(Kernel kernel, const char* name, dim3 grid, int threads, int shared_bytes,
                   const Arguments&... arguments) {
    cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (error == cudaSuccess) {
        kernel<<<grid, threads, shared_bytes>>>(arguments...);
        error = cudaGetLastError();
    }
    check_launch(error, name);
    return {grid.x, grid.y, grid.z, unsigned(threads), static_cast<unsigned long long>(shared_bytes)};
}

/// The same with one thread block for each block of queries of each head.
template <class Config, class Kernel, class... Arguments>
Launch launch_attention(Kernel kernel, const char* name, int shared_bytes, const AttentionArgs& args,
                        const Arguments&... arguments) {
    const unsigned q_blocks = unsigned((args.seqlen_q + Config::block_m - 1) / Config::block_m);
    return launch_grid(kernel, name, dim3(q_blocks, unsigned(args.heads), unsigned(args.batch)),
                       Config::threads, shared_bytes, args, arguments...);
}

/// Those of the GPU that is used.
inline int multiprocessors(const char* name) {
    int device = 0;
    int count = 0;
    check_launch(cudaGetDevice(&device), name);
    check_launch(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), name);
    return count;
}

}  // namespace tilescope
