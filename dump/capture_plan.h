#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dump/schema.h"
#include "dump/selection.h"
#include "dump/sink.h"

namespace tilescope {

/// Where each selected tile goes in one block of memory: the plan of a capture, the same for device and host
/// memory. Regions in order: counters, slot tables, then for each captured stage its conflict counters and
/// its tiles.
class CapturePlan {
 public:
    /// Tiles that do not fit into `max_bytes` get no room: stages in order of computation, tiles in order
    /// (batch, head, q_block, kv_tile). Writes to them are counted, and so are the tiles.
    /// Errors: Error when the selection selects nothing of this problem.
    CapturePlan(const Problem& problem, const Selection& selection, std::size_t max_bytes);

    const Problem& problem() const { return problem_; }
    const Selection& selection() const { return selection_; }
    std::size_t bytes() const { return bytes_; }

    /// The first bytes of the memory must hold this image (counters, tables, conflict counters all in front
    /// of the tiles); the words from head_bytes() on must be filled with unwritten_bits.
    const std::vector<std::byte>& head() const { return head_; }
    std::size_t head_bytes() const { return head_.size(); }

    /// The sink of a memory block at `base`; nothing is read or written through `base`.
    Sink sink(std::byte* base) const;

    /// Slot of the tile, counted like the hooks do; -1 when it is not selected.
    std::int64_t tile_slot(Stage stage, const TileId& tile) const;
    /// Tiles of `stage` that are selected, and how many of them have room.
    std::int64_t selected_tiles(Stage stage) const;
    std::int64_t capacity(Stage stage) const;
    std::vector<TileId> tiles(Stage stage) const;  ///< the selected tiles, in slot order

 private:
    struct StagePlan {
        std::int64_t selected = 0;
        std::int64_t capacity = 0;
        std::size_t conflicts_offset = 0;
        std::size_t words_offset = 0;
    };
    Problem problem_;
    Selection selection_;
    std::vector<std::int32_t> q_block_slots_;
    std::vector<std::int32_t> kv_tile_slots_;
    std::int32_t kv_slots_ = 0;
    std::size_t q_block_slots_offset_ = 0;
    std::size_t kv_tile_slots_offset_ = 0;
    std::array<StagePlan, stage_count> stages_;
    std::vector<std::byte> head_;
    std::size_t bytes_ = 0;
};

}  // namespace tilescope
