#pragma once

#include <span>
#include <string_view>

#include "oracle/causes/site.h"

namespace tilescope {

/// What an index, a bound or a first value of an element can have been computed from by mistake.
enum class ElementPlace { row, col, query, key, kv_tile, q_block, head, batch };

std::string_view place_name(ElementPlace place);
std::int64_t place_of(ElementPlace place, const SearchedTile& site, Eigen::Index row, Eigen::Index col);

/// Those that the elements of a stage have.
std::span<const ElementPlace> places_of_elements(Stage stage);

}  // namespace tilescope
