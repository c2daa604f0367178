#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dump/recording.h"

namespace tilescope {

enum class Reach : std::uint8_t { not_begun, under_way, finished };

/// How far the computation of a query block came.
struct ReachedBlock {
    TileId q_block;
    Reach reach = Reach::not_begun;
    /// The last tile of which an element was written, in order of KV tile and stage; means nothing where the
    /// block has not begun.
    Stage stage = Stage::q;
    std::int64_t kv_tile = 0;
    bool whole = false;  ///< nothing of that tile is unwritten
};

/// How far a run came that did not complete.
struct RunReach {
    /// A query block is finished when this is whole: an output, or a stage's last KV tile.
    Stage finishing = Stage::o;
    /// Those of which something of `finishing` was asked for, in order (batch, head, q_block).
    std::vector<ReachedBlock> blocks;
    bool reverse = false;  ///< the kernel takes the KV tiles from the last one on

    std::int64_t count(Reach reach) const;
};

/// Looks at every query block; a stage that nothing was recorded of is taken for one without hooks.
/// Errors: Error for a damaged file.
RunReach reached_blocks(const Recording& recording);

/// "the run ended with ...", for what CaptureSummary::ended holds.
std::string how_it_ended(const std::string& ended);

std::string_view name_of(Reach reach);

/// At most 10 lines: how many blocks came how far, and those under way, the furthest behind first.
std::string to_text(const RunReach& reached);

}  // namespace tilescope
