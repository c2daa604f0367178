#pragma once

#include <vector>

#include "oracle/causes/site.h"

namespace tilescope {

/// What the memory of the tile's elements held before it, as dumped: the tile that was computed or loaded `behind`
/// tiles before in the same block or, past its first one, in the block before, as if blocks ran one after the
/// other; then those before it. A running state is that of the same split. A copy of the same keys ends it: it
/// says nothing.
std::vector<MatrixF> left_in_memory(Stage stage, const SearchedTile& site, std::int64_t behind);

}  // namespace tilescope
