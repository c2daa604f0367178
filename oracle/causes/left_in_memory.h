#pragma once

#include <span>
#include <vector>

#include "oracle/causes/site.h"

namespace tilescope {

/// What the memory of the tile's elements held before it, as dumped: the tile that was computed or loaded `behind`
/// tiles before in the same block or, past its first one, in the block before, as if blocks ran one after the
/// other; then those before it. A running state is that of the same split. A copy of the same keys ends it: it
/// says nothing.
std::vector<MatrixF> left_in_memory(Stage stage, const SearchedTile& site, std::int64_t behind);

/// The elements as the first of the tiles has them that has them, in natural units. Of those that none has, or that no
/// thread recorded there, nothing is known: a kernel may fill up a tile at the end.
void take_left(Stage stage, const SearchedTile& site, std::span<const MatrixF> tiles, Estimate& estimate);

}  // namespace tilescope
