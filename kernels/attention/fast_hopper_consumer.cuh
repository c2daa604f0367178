#pragma once

// The consumers of the warp-specialised fast kernel, a warpgroup each. A consumer starts the scores of a tile
// before the tile before is added to its accumulator; while one consumer computes exponentials, the products of
// the other one have the tensor cores.

#include <type_traits>

#include "dump/hook.h"
#include "kernels/attention/fast_hopper_outputs.cuh"
#include "kernels/attention/fast_hopper_softmax.cuh"
#ifdef DEBUG_DUMP
#include "kernels/attention/fast_hopper_hooks.cuh"
#endif

namespace tilescope {

/// A thread's part of its warp's queries, in the order of an accumulator.
template <class Config>
using HopperQ = std::uint32_t[Config::depths][4];

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

/// A thread of the consumers.
struct HopperThread {
    int lane;
    int first_row;     ///< of the warp, in the query block
    int in_consumers;  ///< index among the threads of all consumers
};

KERNEL_FUNCTION HopperThread hopper_thread() {
    const int thread = int(threadIdx.x);
    // The compiler does not know that a warp is uniform in it.
    const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    return {thread % 32, warp * 16, thread};
}

template <class Config>
KERNEL_FUNCTION bool is_second(const HopperThread& thread) {
    return thread.in_consumers >= Config::group;
}

/// A warp says that it is done with what the barrier guards.
KERNEL_FUNCTION void release(SharedBarrier& barrier, int lane) {
    if (lane == 0) barrier.arrive();
}

template <class Config>
KERNEL_FUNCTION void take_q(HopperQ<Config>& q, const unsigned char* q_tile, const HopperThread& thread) {
    constexpr int depths_of_box = Config::row_bytes / product_depth_bytes;
    const int row = thread.first_row + thread.lane % 16;
    KERNEL_UNROLL
    for (int depth = 0; depth < Config::depths; ++depth) {
        const int box = depth / depths_of_box;
        const int chunk = depth % depths_of_box * 2 + thread.lane / 16;
        load_matrices(q[depth],
                      shared_address(q_tile) +
                          std::uint32_t((box * Config::block_m + row) * Config::row_bytes +
                                        swizzled_chunk<Config::row_bytes>(row, chunk) * chunk_bytes));
    }
}

/// Starts s = Q K^T.
template <class Config>
KERNEL_FUNCTION void start_scores(float (&s)[Config::scores], const HopperQ<Config>& q,
                                  const unsigned char* k_tile) {
    using Element = typename Config::Element;
    constexpr int depths_of_box = Config::row_bytes / product_depth_bytes;
    const std::uint32_t layout = FAULT(descriptor_not_swizzled) ? SharedOperand::not_swizzled
                                                                : SharedOperand::swizzled<Config::row_bytes>;
    const SharedOperand k = shared_operand(shared_address(k_tile), layout);
    pin(s);
    begin_products();
    multiply_group<Element, false, false>(s, q[0], k);
    KERNEL_UNROLL
    for (int depth = 1; depth < Config::depths; ++depth) {
        const int box = depth / depths_of_box;
        multiply_group<Element, true, false>(
            s, q[depth],
            k.at(box * Config::block_n * Config::row_bytes + depth % depths_of_box * product_depth_bytes));
    }
    commit_products();
}

/// Starts acc += P V.
template <class Config>
KERNEL_FUNCTION void start_outputs(float (&acc)[Config::outputs], const HopperP<Config>& p,
                                   const unsigned char* v_tile) {
    using Element = typename Config::Element;
    pin(acc);
    begin_products();
    KERNEL_UNROLL
    for (int depth = 0; depth < Config::key_depths; ++depth) {
        if constexpr (Config::is_fp8) {
            // Rows are features, of keys.
            constexpr int depths_of_box = Config::v_row_bytes / product_depth_bytes;
            const SharedOperand v =
                shared_operand(shared_address(v_tile), SharedOperand::swizzled<Config::v_row_bytes>);
            multiply_group<Element, true, false>(
                acc, p[depth],
                v.at(depth / depths_of_box * Config::head_dim * Config::v_row_bytes +
                     depth % depths_of_box * product_depth_bytes));
        } else {
            const SharedOperand v = shared_operand(shared_address(v_tile), SharedOperand::swizzled<128>,
                                                   Config::block_n * Config::row_bytes);
            multiply_group<Element, true, true>(acc, p[depth], v.at(depth * 16 * Config::row_bytes));
        }
    }
    commit_products();
}

/// A consumer at work on a block of queries.
template <class Config>
struct HopperConsumer {
    const AttentionArgs& args;
    HopperShared<Config>& shared;
    const HopperThread thread;
    RingPlace<Config> k, v;
    std::uint32_t q_parity = 0;
    /// What was seen to be there before it is needed.
    bool k_arrived = false, v_arrived = false;

    /// Asks whether K of the next tile and V of this one are there. A barrier answers late, which is seen where products
    /// are short: it is asked before the exponentials, which need no answer.
    KERNEL_FUNCTION void ask_ahead() {
        if constexpr (Config::is_fp8) {
            k_arrived = shared.k_full[k.stage].is_complete(k.parity);
            v_arrived = shared.v_full[v.stage].is_complete(v.parity);
        }
    }

    KERNEL_FUNCTION void wait_for_v() const {
        if (!v_arrived) shared.v_full[v.stage].wait(v.parity);
    }

    /// The number of the block of queries that the producer hands over with q.
    KERNEL_FUNCTION int queued() const {
        shared.q_full.wait(q_parity);
        // Read by the lane that gives q back, which racecheck follows.
        return __shfl_sync(0xffffffffu, thread.lane == 0 ? shared.queued : 0, 0);
    }

    /// The block needs no q.
    KERNEL_FUNCTION void pass_over_q() {
        q_parity ^= 1;
        __syncwarp();
        release(shared.q_empty, thread.lane);
    }

    /// The tile of K that is multiplied, whose stage of the ring is `k`.
    KERNEL_FUNCTION const unsigned char* k_tile(int tile) const {
        if (FAULT(stage_of_tile_before)) {
            if (tile > 0) return shared.k[(k.stage + Config::stages - 1) % Config::stages];
        }
        return shared.k[k.stage];
    }

    /// Waits for it, and starts its scores.
    KERNEL_FUNCTION void start_tile(float (&s)[Config::scores], const HopperQ<Config>& q, int tile) {
        if (!k_arrived) shared.k_full[k.stage].wait(FAULT(parity_kept) ? 0 : k.parity);
        if (FAULT(arrival_missing)) {
            if (tile == 1 && is_second<Config>(thread)) be_late();
        }
        if (FAULT(products_not_awaited)) {
            release(shared.k_empty[k.stage], thread.lane);
            be_late();
        }
        start_scores<Config>(s, q, k_tile(tile));
    }

    /// Adds the tile before to acc, whose scores are in P, and waits for it.
    KERNEL_FUNCTION void end_outputs(HopperRows<Config>& rows, int tile TILESCOPE_CALL_PARAM) {
        wait_for_products<0>();
        pin(rows.acc);
        TILESCOPE_FRAGMENT(v, tile, staged_v<Config>(shared.v[v.stage], thread.in_consumers),
                           staged_v<Config>(shared.v[v.stage], thread.in_consumers));
        release(shared.v_empty[v.stage], thread.lane);
        v.advance();
        TILESCOPE_FRAGMENT(acc, tile, rows.acc, MmaAccumulator{thread.first_row, 0, thread.lane});
    }

#ifdef DEBUG_DUMP
    /// Where something is recorded no product is in flight while hooks are called: the compiler would let none be
    /// in flight, in blocks of which nothing is recorded either.
    template <class Block>
    KERNEL_FUNCTION void wait_before_hooks(const Block&) {
        if constexpr (!std::is_same_v<Block, HookNothing>) wait_for_products<0>();
    }
#endif

    /// Masks the scores of a tile and raises the maxima; the stage of K is free then.
    KERNEL_FUNCTION void end_scores(float (&s)[Config::scores], float (&rescale)[2], HopperRows<Config>& rows,
                                    const HopperWork& work, float scale, int tile TILESCOPE_CALL_PARAM) {
#ifdef DEBUG_DUMP
        wait_before_hooks(tilescope_block);
#endif
        TILESCOPE_FRAGMENT(k, tile, boxed<Config>(k_tile(tile), Config::block_n, thread.in_consumers),
                           boxed<Config>(k_tile(tile), Config::block_n, thread.in_consumers));
        mask_tile<Config>(s, args, work.q_block * Config::block_m + thread.first_row, tile * Config::block_n,
                          thread.lane);
        raise_maxima<Config>(rescale, rows, s, scale);
        TILESCOPE_FRAGMENT(s, tile, s, MmaAccumulator{thread.first_row, 0, thread.lane});
        TILESCOPE_FRAGMENT(m, tile, rows.m, MmaRowCopies{thread.first_row, thread.lane});
        // Always so, but not to the compiler, which would wait for the product with V before the maxima.
        const bool arrives =
            !FAULT(products_not_awaited) && (!FAULT(arrival_missing) || !is_second<Config>(thread));
        if (!(rescale[0] + rescale[1] < 0.0f) && arrives) release(shared.k_empty[k.stage], thread.lane);
        k.advance();
    }

    /// Scores become P.
    KERNEL_FUNCTION void end_softmax(HopperP<Config>& p, float (&s)[Config::scores],
                                     const float (&rescale)[2], HopperRows<Config>& rows, float scale,
                                     int tile TILESCOPE_CALL_PARAM) {
        ask_ahead();
        exponentials<Config>(s, rows, rescale, scale);
        rescale_acc<Config>(rows, rescale);
        pack_p<Config>(p, s);
        TILESCOPE_FRAGMENT(p, tile, packed_p<Config>(p), MmaAccumulator{thread.first_row, 0, thread.lane});
        TILESCOPE_FRAGMENT(l, tile, rows.l, MmaRowParts{thread.first_row, thread.lane});
    }

    /// Adds all tiles to the rows.
    KERNEL_FUNCTION void attend(HopperRows<Config>& rows, const HopperWork& work TILESCOPE_CALL_PARAM) {
        const float scale = score_scale<Config>(args, work) * log2_e;
        float s[Config::scores];
        float rescale[2];
        HopperP<Config> p;
        HopperQ<Config> q;
        shared.q_full.wait(q_parity);
        q_parity ^= 1;
        TILESCOPE_FRAGMENT(q, 0, boxed<Config>(shared.q, Config::block_m, thread.in_consumers),
                           boxed<Config>(shared.q, Config::block_m, thread.in_consumers));
        take_q<Config>(q, shared.q, thread);
        __syncwarp();
        release(shared.q_empty, thread.lane);

        start_tile(s, q, 0);
        wait_for_products<0>();
        pin(s);
        end_scores(s, rescale, rows, work, scale, 0 TILESCOPE_BLOCK_ARG);
        end_softmax(p, s, rescale, rows, scale, 0 TILESCOPE_BLOCK_ARG);
        KERNEL_ROLLED
        for (int tile = 1; tile < work.kv_tiles; ++tile) {
            start_tile(s, q, tile);
            wait_for_v();
            start_outputs<Config>(rows.acc, p, shared.v[v.stage]);
            wait_for_products<1>();
            pin(s);
            end_scores(s, rescale, rows, work, scale, tile TILESCOPE_BLOCK_ARG);
            end_outputs(rows, tile - 1 TILESCOPE_BLOCK_ARG);
            end_softmax(p, s, rescale, rows, scale, tile TILESCOPE_BLOCK_ARG);
        }
        wait_for_v();
        start_outputs<Config>(rows.acc, p, shared.v[v.stage]);
        end_outputs(rows, work.kv_tiles - 1 TILESCOPE_BLOCK_ARG);
    }

    KERNEL_FUNCTION void run(const HopperWork& work TILESCOPE_CALL_PARAM) {
        HopperRows<Config> rows;
        KERNEL_UNROLL
        for (int row = 0; row < 2; ++row) {
            rows.m[row] = first_max();
            rows.l[row] = 0.0f;
        }
        KERNEL_UNROLL
        for (int i = 0; i < Config::outputs; ++i) rows.acc[i] = 0.0f;
        if (work.kv_tiles > 0) attend(rows, work TILESCOPE_BLOCK_ARG);
        const int stored =
            FAULT(consumers_swapped) ? thread.first_row ^ Config::group_rows : thread.first_row;
        store_block<Config>(args, rows, work, stored, thread.lane TILESCOPE_BLOCK_ARG);
    }
};

}  // namespace tilescope::KERNEL_BUILD
