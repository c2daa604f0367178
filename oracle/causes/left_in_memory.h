#pragma once

#include <optional>

#include "oracle/causes/site.h"

namespace tilescope {

/// What the memory of the tile's elements held before, as it was dumped: of the tile before in the order of the kernel, or
/// of the block before; of what is kept over the tiles of a block, and of gradients, that of the block before. nullopt where
/// nothing was dumped.
std::optional<MatrixF> left_in_memory(Stage stage, const SearchedTile& site);

/// The same of a whole tile of what is no running state, with NaN where nothing was dumped. `shows_through`: what shorter
/// tiles leave as it was is from those before them, up to two blocks back; otherwise it is NaN.
MatrixF memory_before(Stage stage, const SearchedTile& site, bool shows_through);

}  // namespace tilescope
