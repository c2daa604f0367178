#pragma once

#include <cstdint>
#include <vector>

#include "dump/recording.h"

namespace tilescope {

// What rows see of tiles: by mask, windows and lengths, and of that what the bias does not hide with -inf. Block-sparse,
// tree and chunk masks are such a bias. `entry` is the problem with the batch entry's own lengths.

/// Whether any row of the tile's query block sees any key of its KV tile. Kernels may skip the others.
bool tile_is_seen(const Recording& recording, const Problem& entry, const TileId& tile);

/// Keys of the KV tile that row `row` of the query block sees.
std::int64_t keys_seen(const Recording& recording, const Problem& entry, const TileId& tile,
                       std::int64_t row);

/// [row]: whether it does; empty where all rows of the query block do.
std::vector<bool> rows_that_see(const Recording& recording, const Problem& entry, const TileId& tile);

}  // namespace tilescope
