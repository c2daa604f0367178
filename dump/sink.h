#pragma once

#include <cstdint>

#include "dump/stage.h"

namespace tilescope {

/// Room for the tiles of one stage. Every tile is stored whole and row-major, so that it can become a chunk
/// as it is.
struct SinkStage {
    std::uint32_t* words = nullptr;  ///< bits of float32, tile after tile; null: the stage is not captured
    std::uint32_t* conflicts = nullptr;  ///< for each tile, writes that changed an element already written
    std::uint64_t capacity = 0;          ///< tiles there is room for
    std::uint32_t rows = 0;
    std::uint32_t cols = 0;
    Axis row_axis = Axis::unit;
    Axis col_axis = Axis::unit;
    bool per_q_block = false;
    bool per_kv_tile = false;
};

/// Counts of what the sink could not keep, in elements.
struct SinkCounters {
    unsigned long long dropped[stage_count];       ///< no room for the tile
    unsigned long long out_of_range[stage_count];  ///< coordinates that the problem does not have
};

/// Where hooks write. A plain value, passed to the kernel; what it points to is memory that the kernel can
/// write: device memory, mapped host memory, or host memory for a kernel that runs on the CPU.
/// batch * heads * q_blocks, and the elements of any tile, fit into an int.
struct Sink {
    SinkStage stages[stage_count];
    const std::int32_t* q_block_slots = nullptr;   ///< [batch][head][q_block], -1 where not selected
    const std::int32_t* kv_tile_slots = nullptr;   ///< [kv_tile], -1 where not selected
    const std::int32_t* dkv_head_slots = nullptr;  ///< [batch][dkv_head], -1 where not selected
    SinkCounters* counters = nullptr;              ///< null: nothing is captured
    std::int32_t batch = 0;
    std::int32_t heads = 0;
    std::int32_t dkv_heads = 0;
    std::int32_t q_blocks = 0;
    std::int32_t kv_tiles = 0;
    std::int32_t kv_slots = 0;  ///< selected KV tiles
    std::int32_t seqlen_q = 0;
    std::int32_t seqlen_kv = 0;
    std::int32_t block_m = 0;
    std::int32_t block_n = 0;
};

}  // namespace tilescope
