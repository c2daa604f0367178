#pragma once

#include <optional>

#include "oracle/causes/site.h"

namespace tilescope {

/// What the memory of the tile's elements held before, as it was dumped: of the tile before in the order of the kernel, or
/// of the block before; of what is kept over the tiles of a block, and of gradients, that of the block before. nullopt where
/// nothing was dumped.
std::optional<MatrixF> left_in_memory(Stage stage, const SearchedTile& site);

/// The same of a whole tile, where no tile is set anew: what shorter tiles leave as it was is from those before them, two
/// blocks back. NaN where nothing was dumped.
MatrixF memory_before(Stage stage, const SearchedTile& site);

}  // namespace tilescope
