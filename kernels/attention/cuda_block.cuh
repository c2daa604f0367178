#pragma once

#include <cuda_pipeline_primitives.h>

#include "kernels/attention/platform.h"

namespace tilescope {

/// The thread block that the calling CUDA thread belongs to. Code between two synchronisations is given to
/// each_thread as a function of the thread's index; what a thread keeps in registers from one to the next is
/// a PerThread. CpuBlock plays the same part on the CPU.
struct CudaBlock {
    template <class T>
    struct PerThread {
        T value;
        KERNEL_FUNCTION T& operator[](int) { return value; }
    };

    KERNEL_FUNCTION int q_block() const { return int(blockIdx.x); }
    KERNEL_FUNCTION int head() const { return int(blockIdx.y); }
    KERNEL_FUNCTION int batch() const { return int(blockIdx.z); }

    template <class Function>
    KERNEL_FUNCTION void each_thread(Function&& function) const {
        function(int(threadIdx.x));
    }

    KERNEL_FUNCTION void sync() const { __syncthreads(); }

    /// 16 bytes from global to shared memory, zeros when not `inside`.
    KERNEL_FUNCTION void copy_async(void* shared, const void* global, bool inside) const {
        __pipeline_memcpy_async(shared, global, 16, inside ? 0 : 16);
    }
    KERNEL_FUNCTION void commit() const { __pipeline_commit(); }
    /// Waits until all but the `pending` last commits of this thread have arrived.
    template <int pending>
    KERNEL_FUNCTION void wait() const {
        __pipeline_wait_prior(pending);
    }

    /// Combines `values` over each group of `lanes` threads that are `stride` apart; each gets the result.
    template <int lanes, int stride = 1, class Combine>
    KERNEL_FUNCTION void reduce_rows(PerThread<float>& values, Combine combine) const {
        KERNEL_UNROLL
        for (int distance = lanes / 2 * stride; distance >= stride; distance /= 2) {
            values.value = combine(values.value, __shfl_xor_sync(0xffffffffu, values.value, distance));
        }
    }

    /// Combines `values` over each group of `lanes` neighbouring threads; the first one gets the result.
    template <int lanes, class Combine>
    KERNEL_FUNCTION void reduce_to_first(PerThread<float>& values, Combine combine) const {
        KERNEL_UNROLL
        for (int distance = lanes / 2; distance > 0; distance /= 2) {
            values.value =
                combine(values.value, __shfl_down_sync(0xffffffffu, values.value, distance, lanes));
        }
    }

    /// Lets the other warps run ahead, so that a race is lost every time.
    KERNEL_FUNCTION void delay_last_warp() const {
        if (threadIdx.x / 32 + 1 == blockDim.x / 32) __nanosleep(1000000);
    }
};

}  // namespace tilescope
