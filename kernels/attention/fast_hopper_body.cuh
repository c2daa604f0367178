#pragma once

// The fast kernel for sm_90a: a thread block for each multiprocessor takes blocks of queries until there are no
// more. One warpgroup fetches their tiles by tensor maps, the others multiply them with wgmma.

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "dump/hook.h"
#include "kernels/attention/fast_hopper_consumer.cuh"
#include "kernels/attention/fast_hopper_producer.cuh"
#include "kernels/attention/launch.cuh"
#include "kernels/attention/tensor_map.h"

namespace tilescope::KERNEL_BUILD {

template <class Config>
KERNEL_FUNCTION void init_barriers(HopperShared<Config>& shared) {
    constexpr int consumer_warps = Config::consumers * Config::group / 32;
    const int warps_of_k = FAULT(arrival_missing) ? Config::group / 32 : consumer_warps;
    shared.q_full.init(1);
    shared.q_empty.init(consumer_warps);
    for (int stage = 0; stage < Config::stages; ++stage) {
        shared.k_full[stage].init(1);
        shared.v_full[stage].init(1);
        shared.k_empty[stage].init(warps_of_k);
        shared.v_empty[stage].init(consumer_warps);
    }
    publish_barriers();
}

template <class Config, bool record>
__global__ void __launch_bounds__(Config::threads, 1)
    fast_hopper_kernel(const __grid_constant__ HopperMaps maps, const AttentionArgs args,
                       const HopperSchedule schedule TILESCOPE_SINK_PARAM(sink)) {
    extern __shared__ __align__(1024) unsigned char fast_hopper_shared[];
    auto& shared = *reinterpret_cast<HopperShared<Config>*>(fast_hopper_shared);
    constexpr int first_producer = Config::consumers * Config::group;
    if (threadIdx.x == 0) init_barriers<Config>(shared);
    __syncthreads();
    if (threadIdx.x >= first_producer) {
        give_registers<Config::producer_registers>();
        if (threadIdx.x == first_producer) produce<Config, record>(maps, args, schedule, shared);
    } else {
        take_registers<Config::consumer_registers>();
        HopperConsumer<Config> consumer = {args, shared, hopper_thread(), {}, {}};
        const int rounds = rounds_of(schedule);
        KERNEL_ROLLED
        for (int round = 0; record || round < rounds; ++round) {
            const int number = record ? consumer.queued() : number_in_round(round);
            const HopperWork work = work_numbered<Config>(args, schedule, number);
            if (record && work.q_block < 0) break;
            if (work.q_block < 0) continue;
            if (record && work.kv_tiles == 0) consumer.pass_over_q();
            TILESCOPE_BLOCK_CALL(record, sink, work.batch, work.head, work.q_block,
                                 consumer.run(work TILESCOPE_BLOCK_ARG));
        }
    }
}

/// V in fp8 is that along the keys, see along_keys.h.
template <class Config>
HopperMaps maps_of(const AttentionArgs& args) {
    const std::int64_t heads = std::int64_t(args.batch) * args.heads;
    const std::int64_t heads_kv = std::int64_t(args.batch) * args.heads_kv;
    constexpr auto type = HopperElement<typename Config::Element>::in_maps;
    constexpr int bytes = Config::element_bytes;
    const TensorRows q = {args.q, type, bytes, Config::head_dim, args.seqlen_q, heads};
    const TensorRows k = {args.k, type, bytes, Config::head_dim, args.seqlen_kv, heads_kv};
    TensorRows v = {args.v, type, bytes, Config::head_dim, args.seqlen_kv, heads_kv};
    int v_rows = Config::block_n;
    if (Config::is_fp8) {
        v.elements = along_keys_pitch(args.seqlen_kv);
        v.rows = v_rows = Config::head_dim;
    }
    return {tensor_map(q, {Config::block_m, Config::row_bytes, Config::boxes}),
            tensor_map(k, {Config::block_n, Config::row_bytes, Config::boxes, !FAULT(map_not_swizzled)}),
            tensor_map(v, {v_rows, Config::v_row_bytes, Config::v_boxes})};
}

/// Without a mask, blocks that read the same keys follow each other; with one, long blocks of some heads come first.
template <class Config>
HopperSchedule schedule_of(const AttentionArgs& args) {
    constexpr const char* kernel = HopperElement<typename Config::Element>::kernel;
    HopperSchedule schedule = {(args.seqlen_q + Config::block_m - 1) / Config::block_m,
                               args.batch * args.heads, args.heads / args.heads_kv};
    if (!args.causal) return schedule;
    // Found once for calls of the same shape on the same GPU.
    using Shape = std::array<int, 7>;
    thread_local Shape known = {};
    thread_local int heads_of_known = 0;
    int device = 0;
    check_launch(cudaGetDevice(&device), kernel);
    const Shape shape = {device,        args.batch,     args.heads,        args.heads_kv,
                         args.seqlen_q, args.seqlen_kv, args.causal_offset};
    if (known != shape) {
        int l2_bytes = 0;
        check_launch(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), kernel);
        const std::vector<int> kv_tiles = causal_tiles(args, Config::block_m, Config::block_n);
        heads_of_known =
            heads_at_once({kv_tiles, schedule.heads, schedule.heads_at_once,
                           std::int64_t(args.seqlen_kv) * Config::head_dim * Config::element_bytes * 2,
                           multiprocessors(kernel)},
                          l2_bytes);
        known = shape;
    }
    schedule.heads_at_once = heads_of_known;
    return schedule;
}

struct FastHopperKernel {
    template <KernelConfig config>
    using ConfigOf =
        HopperConfig<ElementOf<config.dtype>, config.block_m, config.block_n, config.stages, config.head_dim>;

    template <class Config>
    static auto function() {
        return fast_hopper_kernel<Config, with_hooks>;
    }

    template <class Config>
    static Launch launch(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        auto* const kernel = TILESCOPE_RECORDS(sink) ? fast_hopper_kernel<Config, with_hooks>
                                                     : fast_hopper_kernel<Config, without_hooks>;
        constexpr const char* name = HopperElement<typename Config::Element>::kernel;
        HopperSchedule schedule = schedule_of<Config>(args);
#ifdef DEBUG_DUMP
        std::optional<HopperQueue> queue;
        if (TILESCOPE_RECORDS(sink)) queue.emplace(schedule, sink, name);
#endif
        const int blocks = std::min(multiprocessors(name), schedule.q_blocks * schedule.heads);
        return launch_grid(kernel, name, dim3(unsigned(blocks)), Config::threads,
                           int(sizeof(HopperShared<Config>)), maps_of<Config>(args), args,
                           schedule TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace tilescope::KERNEL_BUILD
