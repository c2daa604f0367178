#pragma once

#include "oracle/causes/site.h"
#include "oracle/describe/element_place.h"

namespace tilescope {

/// 0 where the stage's elements do not differ by it.
std::int64_t place_of(ElementPlace place, const SearchedTile& site, Stage stage, Eigen::Index row,
                      Eigen::Index col);

/// All coordinates of the element of a tile, and the extents of the recording.
Place element_place(Stage stage, const SearchedTile& site, Eigen::Index row, Eigen::Index col);
/// Goes on to another element of the same tile.
void move_in_tile(Stage stage, Eigen::Index row, Eigen::Index col, Place& place);

}  // namespace tilescope
