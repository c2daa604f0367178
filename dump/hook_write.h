#pragma once

// What the macros of hook.h call: include that one.

#include <cstdint>

#include "dump/sink.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define TILESCOPE_HOST_DEVICE __host__ __device__
#else
#include <atomic>
#include <bit>
#define TILESCOPE_HOST_DEVICE
#endif

namespace tilescope {

/// The place in the problem that the thread block works on.
struct HookBlock {
    const Sink* sink;
    int batch;
    int head;
    int q_block;
};

TILESCOPE_HOST_DEVICE inline float hook_float(float value) {
    return value;
}
#ifdef __CUDACC__
TILESCOPE_HOST_DEVICE inline float hook_float(__half value) {
    return __half2float(value);
}
TILESCOPE_HOST_DEVICE inline float hook_float(__nv_bfloat16 value) {
    return __bfloat162float(value);
}
#endif

/// Stores `bits` and returns what was there.
TILESCOPE_HOST_DEVICE inline std::uint32_t hook_exchange(std::uint32_t* word, std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return atomicExch(word, bits);
#elif defined(__CUDACC__)
    return __atomic_exchange_n(word, bits, __ATOMIC_RELAXED);
#else
    return std::atomic_ref<std::uint32_t>(*word).exchange(bits, std::memory_order_relaxed);
#endif
}

template <class Counter>
TILESCOPE_HOST_DEVICE inline void hook_count(Counter* counter) {
#ifdef __CUDA_ARCH__
    atomicAdd(counter, Counter(1));
#else
    __atomic_fetch_add(counter, Counter(1), __ATOMIC_RELAXED);
#endif
}

TILESCOPE_HOST_DEVICE inline std::uint32_t hook_bits(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    return __builtin_bit_cast(std::uint32_t, value);
#endif
}

/// Records one element of a tile at its place in the tile.
TILESCOPE_HOST_DEVICE inline void hook_value(const HookBlock& block, Stage stage, int kv_tile, int row,
                                             int col, float value) {
    const Sink& sink = *block.sink;
    const SinkStage& room = sink.stages[int(stage)];
    if (room.words == nullptr) return;
    if (!room.per_kv_tile) kv_tile = 0;

    const bool in_problem =
        unsigned(block.batch) < unsigned(sink.batch) && unsigned(block.head) < unsigned(sink.heads) &&
        unsigned(block.q_block) < unsigned(sink.q_blocks) && unsigned(kv_tile) < unsigned(sink.kv_tiles) &&
        unsigned(row) < room.rows && unsigned(col) < room.cols;
    if (!in_problem) {
        hook_count(&sink.counters->out_of_range[int(stage)]);
        return;
    }

    const int query = block.q_block * sink.block_m;
    const int key = kv_tile * sink.block_n;
    if (room.row_axis == Axis::query && query + row >= sink.seqlen_q) return;
    if (room.row_axis == Axis::key && key + row >= sink.seqlen_kv) return;
    if (room.col_axis == Axis::key && key + col >= sink.seqlen_kv) return;

    const int block_index = (block.batch * sink.heads + block.head) * sink.q_blocks + block.q_block;
    const int q_block_slot = sink.q_block_slots[block_index];
    const int kv_slot = room.per_kv_tile ? sink.kv_tile_slots[kv_tile] : 0;
    if (q_block_slot < 0 || kv_slot < 0) return;
    const std::uint64_t tile = room.per_kv_tile ? std::uint64_t(q_block_slot) * sink.kv_slots + kv_slot
                                                : std::uint64_t(q_block_slot);
    if (tile >= room.capacity) {
        hook_count(&sink.counters->dropped[int(stage)]);
        return;
    }

    constexpr std::uint32_t unwritten = 0x7fd17e5cu;
    constexpr std::uint32_t other_nan = 0x7fffffffu;
    std::uint32_t bits = hook_bits(value);
    if (bits == unwritten) bits = other_nan;
    const std::uint64_t element = (tile * room.rows + row) * room.cols + col;
    const std::uint32_t before = hook_exchange(&room.words[element], bits);
    if (before != unwritten && before != bits) hook_count(&room.conflicts[tile]);
}

/// Records the calling thread's share of a tile in shared or global memory: every `threads`-th element from
/// `thread` on, row-major with leading dimension `ld`.
template <class T>
TILESCOPE_HOST_DEVICE inline void hook_tile(const HookBlock& block, Stage stage, int kv_tile, const T* data,
                                            int ld, int thread, int threads) {
    const SinkStage& room = block.sink->stages[int(stage)];
    if (room.words == nullptr) return;
    const int elements = int(room.rows * room.cols);
    for (int i = thread; i < elements; i += threads) {
        const int row = i / int(room.cols);
        const int col = i % int(room.cols);
        hook_value(block, stage, kv_tile, row, col, hook_float(data[row * ld + col]));
    }
}

}  // namespace tilescope
