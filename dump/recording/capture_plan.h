#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dump/hook/sink.h"
#include "dump/schema.h"
#include "dump/schema/selection.h"

namespace tilescope {

/// Where each selected tile goes in one block of memory: the plan of a capture, the same for device and host
/// memory. Regions in order: counters, slot tables, conflict counters of each captured stage, then the tiles
/// of each, and in SinkMode::writers the words of their writers in the same order.
class CapturePlan {
 public:
    /// Tiles that do not fit into `max_bytes` get no room: stages in order of computation, tiles in order
    /// (batch, head, q_block, kv_tile). Writes to them are counted, and so are the tiles.
    /// In SinkMode::statistics a tile takes a TileStatistics, and all of it is head.
    /// Errors: Error when the problem is not valid, when the selection selects nothing of it, and when the
    /// counters and tables alone do not fit.
    CapturePlan(const Problem& problem, const Selection& selection, std::size_t max_bytes,
                SinkMode mode = SinkMode::tiles);

    const Problem& problem() const { return problem_; }
    const Selection& selection() const { return selection_; }
    SinkMode mode() const { return mode_; }
    std::size_t bytes() const { return bytes_; }

    /// The first bytes of the memory must hold this image (counters, tables, conflict counters all in front
    /// of the tiles); the words from head_bytes() on must be filled with unwritten_bits. The memory is
    /// aligned to 8 bytes or more.
    const std::vector<std::byte>& head() const { return head_; }
    std::size_t head_bytes() const { return head_.size(); }

    /// Fills host memory of bytes() bytes as described at head().
    void fill_unwritten(std::byte* memory) const;

    /// The sink of a memory block at `base`; nothing is read or written through `base`.
    Sink sink(std::byte* base) const;

    /// Slot of the tile, counted like the hooks do; -1 when it is not selected or not in the problem.
    std::int64_t tile_slot(Stage stage, const TileId& tile) const;
    /// Where the tile of a slot below capacity(stage) begins, in bytes from the memory's beginning.
    std::size_t tile_offset(Stage stage, std::int64_t slot) const {
        return stage_plan(stage).tiles_offset + std::size_t(slot) * tile_bytes(stage);
    }
    /// Where the words of its writers begin, in SinkMode::writers.
    std::size_t writers_offset(Stage stage, std::int64_t slot) const {
        return tile_offset(stage, slot) + writers_distance_;
    }
    /// The tile of a slot below selected_tiles(stage).
    TileId tile_of_slot(Stage stage, std::int64_t slot) const;
    /// Tiles of `stage` that are selected, and how many of them have room: the first ones, by slot.
    std::int64_t selected_tiles(Stage stage) const { return stage_plan(stage).selected; }
    std::int64_t capacity(Stage stage) const { return stage_plan(stage).capacity; }

 private:
    struct StagePlan {
        std::int64_t selected = 0;
        std::int64_t capacity = 0;
        std::size_t conflicts_offset = 0;
        std::size_t tiles_offset = 0;  ///< of their words or statistics
    };
    const StagePlan& stage_plan(Stage stage) const { return stages_[static_cast<std::size_t>(stage)]; }
    /// What the stage's slots count beside KV tiles: query blocks, or the dkv_heads() of dk and dv.
    const std::vector<std::int32_t>& outer_of_slot(Stage stage) const {
        return stage_info(problem_, stage).per_q_block ? q_block_of_slot_ : dkv_head_of_slot_;
    }
    void number_slots();
    std::size_t place_tables(std::size_t max_bytes);
    std::size_t tile_bytes(Stage stage) const;
    void place_stages(std::size_t offset, std::size_t max_bytes);
    void write_head();

    Problem problem_;
    Selection selection_;
    SinkMode mode_;
    std::vector<std::int32_t> q_block_slots_;  ///< [batch][head][q_block], -1 where not selected
    std::vector<std::int32_t> kv_tile_slots_;  ///< [kv_tile], -1 where not selected
    /// [batch][dkv_head], -1 where not selected; empty where every stage has query blocks.
    std::vector<std::int32_t> dkv_head_slots_;
    std::vector<std::int32_t> q_block_of_slot_;   ///< index into q_block_slots_
    std::vector<std::int32_t> kv_tile_of_slot_;   ///< index into kv_tile_slots_
    std::vector<std::int32_t> dkv_head_of_slot_;  ///< index into dkv_head_slots_
    std::size_t q_block_slots_offset_ = 0;
    std::size_t kv_tile_slots_offset_ = 0;
    std::size_t dkv_head_slots_offset_ = 0;
    std::array<StagePlan, stage_count> stages_;
    std::vector<std::byte> head_;
    std::size_t bytes_ = 0;
    std::size_t writers_distance_ = 0;  ///< bytes from an element to its writers; 0: none are kept
};

}  // namespace tilescope
