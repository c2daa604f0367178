#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "dump/schema.h"
#include "oracle/describe/coordinate.h"

namespace tilescope {

/// What tells an element from the others of its stage, and what an index, a bound or a condition of a kernel may
/// have been computed from.
enum class ElementPlace : std::uint8_t {
    batch,
    head,
    q_block,
    kv_tile,
    row,  ///< of the tile, as the column
    col,
    query,
    key,
    distance,  ///< key - query
    rose,      ///< whether the tile raised the row's maximum
    flat,      ///< row * columns of a whole tile + column; 0 where it has one column
};
inline constexpr std::size_t element_places = std::size_t(ElementPlace::flat) + 1;

/// "row"; a column has the name of the stage's axis: "col" of keys, "d" of head elements, "lane" of partial sums.
std::string_view place_name(ElementPlace place, Stage stage);

/// The coordinates of a tile's rows and columns: "row", and "col" of keys, "d" of head elements, "lane" of partial sums.
TileAxes axes_of_tile(Stage stage);

/// What the place counts up to in a call of this problem, and its name: "seqlen_kv" of keys. 0 where that has no name.
std::int64_t end_of(ElementPlace place, const Problem& problem, Stage stage);
std::string_view end_name(ElementPlace place);

/// Those that the stage's elements have, and that numbers can be computed from.
std::span<const ElementPlace> places_of_elements(Stage stage);

}  // namespace tilescope
