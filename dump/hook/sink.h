#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "dump/hook/stage.h"

namespace tilescope {

/// What hooks keep of the elements they are given.
enum class SinkMode : std::uint8_t {
    tiles,       ///< their values
    statistics,  ///< a TileStatistics for each tile, no values
    // Those that cost atomics for each element come last.
    checked,  ///< their values, and how many writes changed an element already written
    writers   ///< what `checked` does, and for each element which thread wrote first and how many writes came
};

/// Who wrote an element, as bits of a word: the index in its thread block of the thread that wrote first,
/// whether another thread wrote it as well, and the number of writes, of which writer_most also stands for
/// more. A word of unwritten_bits: nobody did.
inline constexpr std::uint32_t writer_thread = 0x3ffu;
inline constexpr std::uint32_t writer_several = 1u << 15;
inline constexpr std::uint32_t writer_once = 1u << 16;
inline constexpr std::uint32_t writer_most = 0xffffu;
static_assert((unwritten_bits & ~(writer_thread | writer_several | writer_most * writer_once)) != 0);

/// What is kept of a tile in place of its values.
struct TileStatistics {
    /// Over bits and places: the same for the same writes in any order.
    std::uint32_t hash = 0;
    std::uint32_t written = 0;  ///< elements
    std::uint32_t nan = 0;
    std::uint32_t infinite = 0;
    std::uint32_t zero = 0;
    /// The smallest and the largest finite element: bits changed so that their order as unsigned integers is
    /// the order of the values.
    std::uint32_t least = 0xffffffffu;
    std::uint32_t greatest = 0;
    /// Of the finite elements, in multiples of statistics_unit: each thread adds up its part in float32, and
    /// the parts are added exactly. A part beyond +-2^28 counts as +-2^28.
    long long sum = 0;
    long long sum_of_squares = 0;
};
inline constexpr double statistics_unit = 1.0 / (1 << 24);

/// One axis of a stage's tiles: how much of it lies inside the tensor is inside - q_block * per_q_block -
/// kv_tile * per_kv_tile, at most `extent`.
struct SinkAxis {
    std::int32_t extent = 0;  ///< of a whole tile
    std::int32_t inside = 0;
    std::int32_t per_q_block = 0;
    std::int32_t per_kv_tile = 0;
};

/// Room for the tiles of one stage. Every tile is stored whole and row-major, so that it can become a chunk
/// as it is.
struct SinkStage {
    std::uint32_t* words = nullptr;        ///< bits of float32, tile after tile; null in SinkMode::statistics
    std::uint32_t* conflicts = nullptr;    ///< for each tile, writes that changed an element already written
    TileStatistics* statistics = nullptr;  ///< for each tile; null in the other modes
    std::uint32_t capacity = 0;            ///< tiles there is room for
    std::uint32_t kv_slots = 1;            ///< tiles of each query block, or of each head of dk and dv
    std::uint32_t elements = 0;            ///< of a tile
    SinkAxis row;
    SinkAxis col;
    bool per_q_block = false;
    bool per_kv_tile = false;
    /// Every tile of a query block that has a slot has room, the KV tiles by their numbers: hooks test that first.
    bool whole = false;
};

/// What the sink could not keep of a stage.
struct SinkLoss {
    unsigned long long elements = 0;
    /// Batch, head, query block, KV tile, row and column of the one that was counted first, as the hook got
    /// them; row and column are those of the tile.
    std::int32_t first[6] = {};
};

/// A hook that recorded something: a line of a source file.
struct SinkHook {
    std::uint32_t id = 0;    ///< of stage, file and line; 0: none is here
    std::uint32_t line = 0;  ///< written last
    Stage stage = Stage::q;
    char file[55] = {};  ///< no zero behind a name that fills it
};
inline constexpr unsigned sink_hooks = 128;
/// Among the bits of stages: hooks say where they stand, since values are kept.
inline constexpr std::uint32_t sink_notes_hooks = 1u << 31;

struct SinkCounters {
    SinkLoss dropped[stage_count];       ///< no room for the tile
    SinkLoss out_of_range[stage_count];  ///< coordinates that the problem does not have
    SinkHook hooks[sink_hooks];          ///< each at its id or at the next free place behind it
};

/// WMMA accumulators: 16x16, 32x8 and 8x32 of float and half, eight values a lane.
inline constexpr int wmma_tables = 6;
inline constexpr int wmma_values = 8;

/// Where hooks write: a plain value, which a kernel reads from its parameters or from constant memory. What
/// it points to is memory that the kernel can write: device memory, mapped host memory, or host memory for a
/// kernel that runs on the CPU. batch * heads * q_blocks, and the elements of any tile, fit into an int.
struct Sink {
    std::uint32_t q_block_stages =
        0;  ///< a bit for each captured stage that has query blocks, and sink_notes_hooks
    std::uint32_t head_stages = 0;  ///< likewise for each that has none (dk, dv). Both 0: nothing is captured
    SinkMode mode = SinkMode::tiles;
    bool every_kv_tile = false;  ///< all KV tiles are selected
    SinkStage stages[stage_count];
    const std::int32_t* q_block_slots = nullptr;   ///< [batch][head][q_block], -1 where not selected
    const std::int32_t* kv_tile_slots = nullptr;   ///< [kv_tile], -1 where not selected
    const std::int32_t* dkv_head_slots = nullptr;  ///< [batch][dkv_head], -1 where not selected
    SinkCounters* counters = nullptr;
    /// [shape and type][lane][value], row * 256 + column: see WmmaAccumulator. Null where there is no GPU.
    const std::uint16_t* wmma_places = nullptr;
    /// Distance in words from an element to the word that says who wrote it; 0: none are kept.
    std::uint64_t writers = 0;
    std::int32_t batch = 0;
    std::int32_t heads = 0;
    std::int32_t dkv_heads = 0;
    std::int32_t q_blocks = 0;
    std::int32_t kv_tiles = 0;
    std::uint32_t jitter = 0;  ///< seed of the times that hooks wait; 0: they do not. See hook_wait
};

/// The sink whose bytes Python passes on (tilescope.Recorder.sink()); where there are none, one of which nothing is selected.
/// Errors: std::invalid_argument for the bytes of another version.
inline Sink sink_from(const void* bytes, std::size_t size) {
    Sink sink;
    if (size != 0 && size != sizeof sink)
        throw std::invalid_argument(
            "these are not the bytes of a tilescope::Sink: compile with -I of "
            "tilescope.include() of the package that made them");
    if (size != 0) std::memcpy(&sink, bytes, size);
    return sink;
}

static_assert(stage_count <= 32, "the bit sets of a Sink hold a bit for each stage");

}  // namespace tilescope
