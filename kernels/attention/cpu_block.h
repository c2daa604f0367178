#pragma once

#include <array>
#include <cstring>

#include "dump/hook/device.h"
#include "kernels/attention/platform.h"

namespace tilescope {

/// One host thread that plays a CUDA thread block of `threads`: see CudaBlock.
template <int threads>
class CpuBlock {
 public:
    template <class T>
    using PerThread = std::array<T, threads>;

    CpuBlock(int q_block, int head, int batch) : q_block_(q_block), head_(head), batch_(batch) {}

    int q_block() const { return q_block_; }
    int head() const { return head_; }
    int batch() const { return batch_; }

    template <class Function>
    void each_thread(Function&& function) const {
        for (int thread = 0; thread < threads; ++thread) {
            hook_cpu_thread = thread;
            function(thread);
        }
    }

    void sync() const {}

    void copy_async(void* shared, const void* global, bool inside) const {
        if (inside) {
            std::memcpy(shared, global, 16);
        } else {
            std::memset(shared, 0, 16);
        }
    }
    void commit() const {}
    template <int pending>
    void wait() const {}

    template <int lanes, int stride = 1, class Combine>
    void reduce_rows(PerThread<float>& values, Combine combine) const {
        for (int distance = lanes / 2 * stride; distance >= stride; distance /= 2) {
            const PerThread<float> before = values;
            for (int thread = 0; thread < threads; ++thread) {
                values[thread] = combine(before[thread], before[thread ^ distance]);
            }
        }
    }

    template <int lanes, class Combine>
    void reduce_to_first(PerThread<float>& values, Combine combine) const {
        for (int distance = lanes / 2; distance > 0; distance /= 2) {
            const PerThread<float> before = values;
            for (int thread = 0; thread < threads; ++thread) {
                const int other = thread % lanes + distance < lanes ? thread + distance : thread;
                values[thread] = combine(before[thread], before[other]);
            }
        }
    }

    void delay_last_warp() const {}

 private:
    int q_block_;
    int head_;
    int batch_;
};

}  // namespace tilescope
