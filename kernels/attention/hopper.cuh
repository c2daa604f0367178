#pragma once

// Instructions of sm_90 around asynchronous copies: barriers in shared memory, copies of tiles by tensor maps,
// and registers that warps hand to each other.

#include <cuda.h>

#include <cstdint>

#include "kernels/attention/mma.cuh"

namespace tilescope::KERNEL_BUILD {

/// A barrier in shared memory (mbarrier). A phase of it is complete when as many arrivals have come as it
/// waits for, and all bytes that were announced.
struct SharedBarrier {
    std::uint64_t state;

    KERNEL_FUNCTION std::uint32_t address() const { return shared_address(this); }

    KERNEL_FUNCTION void init(int arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
    }
    KERNEL_FUNCTION void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
    }
    /// Arrives, and makes the phase wait for `bytes` more of copies.
    KERNEL_FUNCTION void arrive_expecting(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes)
                     : "memory");
    }
    /// Waits until the phase of this parity is complete. The first phase has parity 0; a barrier that is new
    /// counts as one whose phase of parity 1 is complete.
    KERNEL_FUNCTION void wait(std::uint32_t parity) const {
#ifdef PLANTED_FAULTS
        // A mistake must not hang the GPU: after some milliseconds nobody waits any longer.
        constexpr long long most_cycles = 20'000'000;
        const long long start = clock64();
        while (!is_complete(parity) && clock64() - start < most_cycles) {}
#else
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "again:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "@done bra passed;\n"
            "bra again;\n"
            "passed:\n"
            "}" ::"r"(address()),
            "r"(parity)
            : "memory");
#endif
    }
    KERNEL_FUNCTION bool is_complete(std::uint32_t parity) const {
        std::uint32_t complete;
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
            "selp.u32 %0, 1, 0, done;\n"
            "}"
            : "=r"(complete)
            : "r"(address()), "r"(parity)
            : "memory");
        return complete != 0;
    }
};

/// Makes barriers that the calling thread initialised known to copies, and behind __syncthreads() to all.
KERNEL_FUNCTION void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Fetches a tensor map itself.
KERNEL_FUNCTION void prefetch_map(const CUtensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Starts the copy of a box of a tensor, which begins at these coordinates, to shared memory. Its bytes arrive
/// at the barrier; what lies outside of the tensor becomes zero.
KERNEL_FUNCTION void copy_box_async(const void* shared, const CUtensorMap& map, const SharedBarrier& barrier,
                                    int first, int second, int third, int fourth) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6}], [%2];" ::"r"(shared_address(shared)),
        "l"(&map), "r"(barrier.address()), "r"(first), "r"(second), "r"(third), "r"(fourth)
        : "memory");
}

/// The warps of a warpgroup give registers back, or take some of those: they have `count` a thread then.
template <int count>
KERNEL_FUNCTION void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
KERNEL_FUNCTION void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace tilescope::KERNEL_BUILD
