#pragma once

// The end of a block of queries in the warp-specialised fast kernel: o and lse are stored.

#include "dump/hook.h"
#include "kernels/attention/fast_hopper_faults.cuh"
#include "kernels/attention/fast_hopper_scales.cuh"
#include "kernels/attention/fast_hopper_softmax.cuh"
#include "kernels/attention/fast_outputs.cuh"

namespace tilescope::KERNEL_BUILD {

/// Two lanes whose numbers differ in `bit` exchange a register: the lower one has both of `low` then, and the
/// upper one both of `high`.
KERNEL_FUNCTION void exchange_pair(std::uint32_t& low, std::uint32_t& high, int lane, int bit) {
    const bool upper = (lane & bit) != 0;
    const std::uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? low : high, bit);
    low = upper ? got : low;
    high = upper ? high : got;
}

/// Four lanes have a quarter each of four things: afterwards each of them has one of these whole.
KERNEL_FUNCTION void exchange_quarters(std::uint32_t (&quarters)[4], int lane) {
    exchange_pair(quarters[0], quarters[1], lane, 1);
    exchange_pair(quarters[2], quarters[3], lane, 1);
    exchange_pair(quarters[0], quarters[2], lane, 2);
    exchange_pair(quarters[1], quarters[3], lane, 2);
}

/// Stores one of a thread's rows. Its four lanes exchange what they have, so that each stores 16 bytes at once.
template <class Config>
KERNEL_FUNCTION void store_row(const HopperOutput<Config>& output, const AttentionArgs& args,
                               const std::uint32_t (&pairs)[Config::outputs / 2], int half, int lane) {
    auto* const row = static_cast<std::uint32_t*>(args.o) + output.row * (Config::head_dim / 2);
    KERNEL_UNROLL
    for (int tile = 0; tile < Config::feature_tiles; tile += 4) {
        std::uint32_t quarters[4];
        KERNEL_UNROLL
        for (int i = 0; i < 4; ++i) quarters[i] = pairs[(tile + i) * 2 + half];
        exchange_quarters(quarters, lane);
        if (!output.inside) continue;
        *reinterpret_cast<uint4*>(row + (tile + lane % 4) * 4) =
            make_uint4(quarters[0], quarters[1], quarters[2], quarters[3]);
    }
}

/// Stores the thread's rows; `first_row` is the warp's first one in the query block.
template <class Config>
KERNEL_FUNCTION void store_block(const AttentionArgs& args, const HopperRows<Config>& rows,
                                 const HopperWork& work, int first_row, int lane TILESCOPE_CALL_PARAM) {
    const HopperDescales descales = descales_of<Config>(args, work);
    std::uint32_t pairs[Config::outputs / 2];
    KERNEL_UNROLL
    for (int half = 0; half < 2; ++half) {
        const int row = first_row + half * 8 + lane / 4;
        const HopperOutput<Config> output(args, std::int64_t(work.batch) * args.heads + work.head,
                                          work.q_block * Config::block_m + row, lane);
        float l = rows.l[half];
        l += __shfl_xor_sync(0xffffffffu, l, 1);
        l += __shfl_xor_sync(0xffffffffu, l, 2);
        store_lse<HopperStored<Config>>(args, output, descaled<Config>({rows.m[half], l}, descales), row,
                                        lane TILESCOPE_BLOCK_ARG);
        const float factor = output_factor<Config>(l, descales);
        KERNEL_UNROLL
        for (int tile = 0; tile < Config::feature_tiles; ++tile) {
            const float* const pair = &rows.acc[tile * 4 + half * 2];
            pairs[tile * 2 + half] = pack<typename Config::Output>(pair[0] * factor, pair[1] * factor);
        }
        // Faults have one configuration, and others may have no room for it.
        if constexpr (with_faults) {
            if (FAULT(store_not_fenced)) {
                copy_row_before_it_is_stored<Config>(output, args, pairs, row, half, lane);
                continue;
            }
        }
        store_row<Config>(output, args, pairs, half, lane);
    }
    TILESCOPE_FRAGMENT(o, 0, pairs_of<HopperStored<Config>>(pairs), MmaAccumulator{first_row, 0, lane});
}

}  // namespace tilescope::KERNEL_BUILD
