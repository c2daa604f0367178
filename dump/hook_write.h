#pragma once

// What the macros of hook.h call: include that one.

#include <cstddef>
#include <cstdint>

#include "dump/sink.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define TILESCOPE_HOST_DEVICE __host__ __device__
// Inlined into unrolled loops, hooks would make kernels several times slower to compile.
#define TILESCOPE_OUT_OF_LINE __noinline__
#else
#define TILESCOPE_HOST_DEVICE
#define TILESCOPE_OUT_OF_LINE
#endif

namespace tilescope {

/// The place in the problem that the thread block works on. For dk and dv `head` counts dkv_heads(), and
/// q_block means nothing.
struct HookBlock {
    const Sink* sink;
    int batch;
    int head;
    int q_block;
};

/// The exact float32 value of an element. A type of one's own is recorded through a hook_float in its
/// namespace.
TILESCOPE_HOST_DEVICE inline float hook_float(float value) {
    return value;
}
float hook_float(double value) = delete;  // float32 would round it
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
#else
    return __atomic_exchange_n(word, bits, __ATOMIC_RELAXED);
#endif
}

template <class Counter>
TILESCOPE_HOST_DEVICE inline void hook_count(Counter* counter, Counter count) {
#ifdef __CUDA_ARCH__
    atomicAdd(counter, count);
#else
    __atomic_fetch_add(counter, count, __ATOMIC_RELAXED);
#endif
}

TILESCOPE_HOST_DEVICE inline std::uint32_t hook_bits(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    return __builtin_bit_cast(std::uint32_t, value);
#endif
}

/// What the sink has for one tile. A tile that is not selected has no elements.
struct HookTile {
    std::uint32_t* words = nullptr;  ///< null: nothing of the tile can be kept, `lost` counts it
    std::uint32_t* conflicts = nullptr;
    unsigned long long* lost = nullptr;
    unsigned rows = 0;  ///< the part inside the tensor
    unsigned cols = 0;
    unsigned ld = 0;
};

/// The part of a tile that lies inside the tensor, along one axis; `room` is the whole tile's length.
TILESCOPE_HOST_DEVICE inline unsigned hook_extent(const Sink& sink, Axis axis, unsigned room, int q_block,
                                                  int kv_tile) {
    if (axis == Axis::feature || axis == Axis::unit) return room;
    const int inside = axis == Axis::query ? sink.seqlen_q - q_block * sink.block_m
                                           : sink.seqlen_kv - kv_tile * sink.block_n;
    return unsigned(inside) < room ? unsigned(inside) : room;
}

TILESCOPE_HOST_DEVICE inline HookTile hook_find(const HookBlock& block, Stage stage, int kv_tile) {
    const Sink& sink = *block.sink;
    const SinkStage& room = sink.stages[int(stage)];
    HookTile tile;
    if (room.words == nullptr) return tile;
    tile.ld = room.cols;
    if (!room.per_kv_tile) kv_tile = 0;
    const int q_block = room.per_q_block ? block.q_block : 0;
    const int heads = room.per_q_block ? sink.heads : sink.dkv_heads;

    const bool in_problem =
        unsigned(block.batch) < unsigned(sink.batch) && unsigned(block.head) < unsigned(heads) &&
        unsigned(q_block) < unsigned(sink.q_blocks) && unsigned(kv_tile) < unsigned(sink.kv_tiles);
    if (!in_problem) {
        tile.rows = room.rows;
        tile.cols = room.cols;
        tile.lost = &sink.counters->out_of_range[int(stage)];
        return tile;
    }

    const int head = block.batch * heads + block.head;
    const int outer_slot =
        room.per_q_block ? sink.q_block_slots[head * sink.q_blocks + q_block] : sink.dkv_head_slots[head];
    const int kv_slot = room.per_kv_tile ? sink.kv_tile_slots[kv_tile] : 0;
    if (outer_slot < 0 || kv_slot < 0) return tile;
    tile.rows = hook_extent(sink, room.row_axis, room.rows, q_block, kv_tile);
    tile.cols = hook_extent(sink, room.col_axis, room.cols, q_block, kv_tile);

    const std::uint64_t kv_slots = room.per_kv_tile ? std::uint64_t(sink.kv_slots) : 1;
    const std::uint64_t slot = std::uint64_t(outer_slot) * kv_slots + std::uint64_t(kv_slot);
    if (slot >= room.capacity) {
        tile.lost = &sink.counters->dropped[int(stage)];
        return tile;
    }
    tile.words = room.words + slot * room.rows * room.cols;
    tile.conflicts = room.conflicts + slot;
    return tile;
}

/// Stores one element. Whichever of two writers comes second sees the first one's bits, so two that differ
/// are counted however they race.
TILESCOPE_HOST_DEVICE inline void hook_store(const HookTile& tile, unsigned row, unsigned col, float value) {
    constexpr std::uint32_t other_nan = 0x7fffffffu;
    std::uint32_t bits = hook_bits(value);
    if (bits == unwritten_bits) bits = other_nan;
    const std::uint32_t before = hook_exchange(&tile.words[row * tile.ld + col], bits);
    if (before != unwritten_bits && before != bits) hook_count(tile.conflicts, std::uint32_t(1));
}

/// Records one element of a tile at its place in the tile.
TILESCOPE_HOST_DEVICE TILESCOPE_OUT_OF_LINE inline void hook_element(const HookBlock& block, Stage stage,
                                                                     int kv_tile, int row, int col,
                                                                     float value) {
    const SinkStage& room = block.sink->stages[int(stage)];
    if (room.words == nullptr) return;
    if (unsigned(row) >= room.rows || unsigned(col) >= room.cols) {
        hook_count(&block.sink->counters->out_of_range[int(stage)], 1ull);
        return;
    }
    const HookTile tile = hook_find(block, stage, kv_tile);
    if (unsigned(row) >= tile.rows || unsigned(col) >= tile.cols) return;
    if (tile.words == nullptr) {
        hook_count(tile.lost, 1ull);
        return;
    }
    hook_store(tile, unsigned(row), unsigned(col), value);
}

template <class T>
TILESCOPE_HOST_DEVICE inline void hook_value(const HookBlock& block, Stage stage, int kv_tile, int row,
                                             int col, const T& value) {
    hook_element(block, stage, kv_tile, row, col, hook_float(value));
}

/// Records the calling thread's share of a tile in shared or global memory: every `threads`-th element from
/// `thread` on, row-major with leading dimension `ld`. Nothing outside the tensor is read.
template <class T>
TILESCOPE_HOST_DEVICE inline void hook_tile(const HookBlock& block, Stage stage, int kv_tile, const T* data,
                                            int ld, int thread, int threads) {
    const HookTile tile = hook_find(block, stage, kv_tile);
    const unsigned elements = tile.rows * tile.cols;
    if (elements == 0) return;
    if (thread < 0 || threads < 1) {
        hook_count(&block.sink->counters->out_of_range[int(stage)], 1ull);
        return;
    }
    if (tile.words == nullptr) {
        const unsigned share =
            unsigned(thread) < elements ? (elements - 1 - unsigned(thread)) / unsigned(threads) + 1 : 0;
        hook_count(tile.lost, (unsigned long long)(share));
        return;
    }
    for (unsigned i = unsigned(thread); i < elements; i += unsigned(threads)) {
        const unsigned row = i / tile.cols;
        const unsigned col = i % tile.cols;
        hook_store(tile, row, col, hook_float(data[std::ptrdiff_t(row) * ld + std::ptrdiff_t(col)]));
    }
}

}  // namespace tilescope
