#pragma once

// What planted faults of the warp-specialised fast kernel do in the place of what is right.

#include "kernels/attention/fast_hopper_config.cuh"
#include "kernels/attention/fast_outputs.cuh"

namespace tilescope {

/// What is stored, as code for outputs sees a configuration.
template <class Config>
struct HopperStored {
    using Element = typename Config::Output;
    static constexpr int head_dim = Config::head_dim;
};

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

template <class Config>
using HopperOutput = FastOutput<HopperStored<Config>>;

/// Long enough for the others to record two tiles.
KERNEL_FUNCTION void be_late() {
    __nanosleep(500000);
}

/// A row of o on its way through shared memory, which holds one of Q: without a fence the copy may read it before
/// the stores that fill it, and here it does.
template <class Config>
KERNEL_FUNCTION void copy_row_before_it_is_stored(const HopperOutput<Config>& output,
                                                  const AttentionArgs& args,
                                                  const std::uint32_t (&pairs)[Config::outputs / 2], int row,
                                                  int half, int lane) {
    static_assert(Config::boxes == 1, "a row is not in one piece");
    constexpr int row_bytes = Config::head_dim * 2;
    extern __shared__ __align__(1024) unsigned char fast_hopper_shared[];
    unsigned char* const staged =
        reinterpret_cast<HopperShared<Config>*>(fast_hopper_shared)->q + row * row_bytes;
    if (lane % 4 == 0 && output.inside) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                         static_cast<unsigned char*>(args.o) + output.row * row_bytes),
                     "r"(shared_address(staged)), "r"(row_bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncwarp();
    KERNEL_UNROLL
    for (int tile = 0; tile < Config::feature_tiles; ++tile) {
        reinterpret_cast<std::uint32_t*>(staged)[tile * 4 + lane % 4] = pairs[tile * 2 + half];
    }
}

}  // namespace tilescope::KERNEL_BUILD
