#pragma once

// The producer of the warp-specialised fast kernel: one thread that starts the copies of all tiles.

#include "kernels/attention/fast_hopper_deal.cuh"
#include "kernels/attention/fast_hopper_faults.cuh"

namespace tilescope::KERNEL_BUILD {

/// Starts the copy of a tile of K or V as soon as its stage is free. `head` counts over all batch entries.
template <class Config>
KERNEL_FUNCTION void fetch_tile(const void* tile, const CUtensorMap& map, SharedBarrier& full,
                                const SharedBarrier& empty, std::uint32_t parity, int first_row,
                                int first_part, int head) {
    empty.wait(parity ^ 1);
    full.arrive_expecting(Config::kv_bytes);
    copy_box_async(tile, map, full, 0, first_row, first_part, head);
}

template <class Config, bool record>
KERNEL_FUNCTION void produce(const HopperMaps& maps, const AttentionArgs& args,
                             const HopperSchedule& schedule, HopperShared<Config>& shared) {
    prefetch_map(maps.q);
    prefetch_map(maps.k);
    prefetch_map(maps.v);
    RingPlace<Config> k, v;
    std::uint32_t q_parity = 0;
    Queued next = {};
    if constexpr (record) next = take_number(schedule);
    const int rounds = rounds_of(schedule);
    KERNEL_ROLLED
    for (int round = 0; record || round < rounds; ++round) {
        const int number = record ? next.number : number_in_round(round);
        const HopperWork work = work_numbered<Config>(args, schedule, number);
        if (!record && (work.q_block < 0 || work.kv_tiles == 0)) continue;
        const int kv_head = work.batch * args.heads_kv + head_kv(args, work.head);
        shared.q_empty.wait(q_parity ^ 1);
        q_parity ^= 1;
        if constexpr (record) {
            shared.queued = number;
            if (work.kv_tiles == 0) {
                // No q comes with the number.
                shared.q_full.arrive();
                if (work.q_block < 0) break;
                next = take_number(schedule);
                continue;
            }
        }
        shared.q_full.arrive_expecting(Config::q_bytes);
        copy_box_async(shared.q, maps.q, shared.q_full, 0, work.q_block * Config::block_m, 0,
                       work.batch * args.heads + work.head);
        const bool recorded = next.recorded;
        const int early = work.kv_tiles > 3 ? work.kv_tiles - 3 : 0;
        // In the order in which consumers are done with stages: K is needed a tile ahead of V.
        KERNEL_ROLLED
        for (int tile = 0; tile <= work.kv_tiles; ++tile) {
            if constexpr (record) {
                // Early, since an answer takes a while.
                if (!recorded && tile == early) next = take_number(schedule);
            }
            if (tile < work.kv_tiles) {
                // Consumers that do not wait for the tile are here before it.
                if (FAULT(parity_kept)) be_late();
                fetch_tile<Config>(shared.k[k.stage], maps.k, shared.k_full[k.stage], shared.k_empty[k.stage],
                                   k.parity, tile * Config::block_n, 0, kv_head);
                k.advance();
                // V, which they do wait for, arrives after it.
                if (FAULT(parity_kept)) be_late();
            }
            if (tile > 0) {
                fetch_tile<Config>(shared.v[v.stage], maps.v, shared.v_full[v.stage], shared.v_empty[v.stage],
                                   v.parity, Config::is_fp8 ? 0 : (tile - 1) * Config::block_n,
                                   Config::is_fp8 ? (tile - 1) * Config::v_boxes : 0, kv_head);
                v.advance();
            }
        }
        if constexpr (record) {
            if (recorded) {
                // Others may be done by the time that this block is.
                shared.v_empty[v.before().stage].wait(v.before().parity);
                next = take_number(schedule);
            }
        }
    }
}

}  // namespace tilescope::KERNEL_BUILD
