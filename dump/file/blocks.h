#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>

#include "dump/file/check.h"
#include "dump/schema.h"

namespace tilescope::hdf5 {

/// Query blocks, by their number in order (batch, head, q_block).
using BlockNumbers = std::set<std::int64_t>;

std::int64_t block_number(const Problem& problem, const TileId& q_block);

/// The query blocks that datasets of stages hold something of; nullopt where that is not known at little
/// cost, and any block may be one. A recording of few blocks is known: the datasets say how many chunks they
/// hold, some of them say which blocks these are of, and looking up the chunks of these blocks proves that
/// there are no others.
std::optional<BlockNumbers> stored_blocks(
    const Problem& problem, const std::array<std::optional<StoredDataset>, stage_count>& datasets);

}  // namespace tilescope::hdf5
