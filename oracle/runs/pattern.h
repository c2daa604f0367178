#pragma once

#include <functional>

#include "oracle/runs/seen_tiles.h"

namespace tilescope {

/// Which elements of the tiles that were seen a pattern holds.
using Holds = std::function<bool(const SeenTile&, Eigen::Index row, Eigen::Index col)>;

/// Whether the element can tell where a mistake is made: it is wrong, or a mistake would have changed it. A 0
/// or an infinity often stays what it is.
bool tells(const SeenTile& seen, Eigen::Index row, Eigen::Index col);

/// Share of the elements, or of whole tiles, that are wrong where the pattern says so and right elsewhere; 0
/// where the pattern leaves out more than 1 % of the wrong elements.
double agreement(const SeenTiles& all, const Holds& holds, bool of_tiles = false);

}  // namespace tilescope
