#pragma once

// Which blocks of queries a thread block takes: dealt out beforehand or, where something is recorded, from a queue, since
// a block that is recorded takes many times as long as another.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "dump/hook.h"
#include "kernels/attention/fast_hopper_config.cuh"
#include "kernels/attention/fast_hopper_schedule.h"
#include "kernels/attention/launch.cuh"

namespace tilescope::KERNEL_BUILD {

KERNEL_FUNCTION int all_blocks(const HopperSchedule& schedule) {
    return schedule.q_blocks * schedule.heads;
}

/// The block of queries of a number; none where it is behind the last.
template <class Config>
KERNEL_FUNCTION HopperWork work_numbered(const AttentionArgs& args, const HopperSchedule& schedule,
                                         int number) {
    const int all = all_blocks(schedule);
    if (number >= (FAULT(block_left_out) ? all - 1 : all)) return {-1, 0, 0, 0};
    const auto [head, q_block] = block_of(schedule, number);
    return {q_block, head % args.heads, head / args.heads, kv_tile_count<Config>(args, q_block)};
}

/// How often a thread block takes a block of queries, or finds none left in the last round.
KERNEL_FUNCTION int rounds_of(const HopperSchedule& schedule) {
    return (all_blocks(schedule) + int(gridDim.x) - 1) / int(gridDim.x);
}

/// The number that the thread block takes in a round: they are dealt out from the first thread block to the last one, and
/// the other way round in the next round, so that nobody always has the longest.
KERNEL_FUNCTION int number_in_round(int round) {
    const int blocks = int(gridDim.x);
    const int place = int(blockIdx.x);
    return round * blocks + (round % 2 == 0 ? place : blocks - 1 - place);
}

/// What a queue begins with, in front of the numbers of all blocks.
struct HopperQueueHead {
    int taken;
    int recorded;  ///< blocks, which come first
};
inline constexpr int queue_head = int(sizeof(HopperQueueHead) / sizeof(int));

struct Queued {
    int number;  ///< behind the last one where the queue is empty
    bool recorded;
};

KERNEL_FUNCTION Queued take_number(const HopperSchedule& schedule) {
    auto* const head = reinterpret_cast<HopperQueueHead*>(schedule.queue);
    const int taken = atomicAdd(&head->taken, 1);
    const int all = all_blocks(schedule);
    return {taken < all ? schedule.queue[queue_head + taken] : all, taken < head->recorded};
}

#ifdef DEBUG_DUMP
inline constexpr int queueing_threads = 1024;

/// Whether something of the block of queries is recorded.
KERNEL_FUNCTION bool is_recorded(const HopperSchedule& schedule, const Sink& sink, int number) {
    if (number >= all_blocks(schedule)) return false;
    const auto [head, q_block] = block_of(schedule, number);
    return sink.q_block_slots[head * schedule.q_blocks + q_block] >= 0;
}

/// Fills the queue, blocks of which something is recorded first. One thread block.
static __global__ void queue_blocks(const HopperSchedule schedule, const Sink sink) {
    __shared__ int recorded_of_warp[queueing_threads / 32];
    const int thread = int(threadIdx.x);
    const int all = all_blocks(schedule);
    int recorded = 0;
    for (int first = 0; first < all; first += queueing_threads) {
        recorded += __syncthreads_count(is_recorded(schedule, sink, first + thread));
    }
    int next_recorded = 0;
    for (int first = 0; first < all; first += queueing_threads) {
        const int number = first + thread;
        const bool mine = is_recorded(schedule, sink, number);
        const unsigned of_warp = __ballot_sync(0xffffffffu, mine);
        if (thread % 32 == 0) recorded_of_warp[thread / 32] = __popc(of_warp);
        const int of_all = __syncthreads_count(mine);
        int before = next_recorded + __popc(of_warp & ((1u << thread % 32) - 1));
        for (int warp = 0; warp < thread / 32; ++warp) before += recorded_of_warp[warp];
        // As many are neither recorded nor behind it as numbers before it are left.
        if (number < all) schedule.queue[queue_head + (mine ? before : recorded + number - before)] = number;
        next_recorded += of_all;
        __syncthreads();
    }
    if (thread == 0) *reinterpret_cast<HopperQueueHead*>(schedule.queue) = {0, recorded};
}

/// Lets the device keep what was given back to its pool: it is mapped anew otherwise, which takes longer than many a launch.
inline void keep_queues(std::uint64_t bytes, const char* name) {
    int device = 0;
    cudaMemPool_t pool = nullptr;
    check_launch(cudaGetDevice(&device), name);
    check_launch(cudaDeviceGetDefaultMemPool(&pool, device), name);
    check_launch(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes), name);
}

/// Device memory of a launch, which is given back when all that is enqueued before is done.
class HopperQueue {
 public:
    HopperQueue(HopperSchedule& schedule, const Sink& sink, const char* name) {
        keep_queues(std::uint64_t(64) << 20, name);
        const std::size_t count = queue_head + std::size_t(schedule.q_blocks) * std::size_t(schedule.heads);
        void* memory = nullptr;
        check_launch(cudaMallocAsync(&memory, count * sizeof(int), nullptr), name);
        schedule.queue = memory_ = static_cast<int*>(memory);
        queue_blocks<<<1, queueing_threads>>>(schedule, sink);
    }
    ~HopperQueue() { cudaFreeAsync(memory_, nullptr); }
    HopperQueue(const HopperQueue&) = delete;
    HopperQueue& operator=(const HopperQueue&) = delete;

 private:
    int* memory_ = nullptr;
};
#endif

}  // namespace tilescope::KERNEL_BUILD
