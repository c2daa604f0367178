#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "oracle/describe/expr.h"

namespace tilescope {

/// An array, and what kernels make indices into it of.
struct IndexedArray {
    Index right;  ///< [a][b][c][d] with the extents of b, c and d; without the last of an array of rows
    /// Of the parts, and of others that may stand in their place.
    std::vector<CoordinateRange> ranges;
    std::vector<Coordinate> extents;         ///< of all parts but the first, of others, and last of the first
    Coordinate tile = Coordinate::nothing;   ///< the number of the tiles that c is counted in
    Coordinate block = Coordinate::nothing;  ///< elements of c in a tile
    Place place;                             ///< the extents
    std::int64_t size = 0;                   ///< elements of the array
    std::int64_t most_number = 64;           ///< in an index
};

/// An index that is wrong in one number or one extent, or that of another array, rightly read.
struct OtherIndex {
    Index index;
    bool is_layout = false;

    /// "head * 2 in place of head"; of another layout all of it: "[batch][query][head][d]".
    std::string text(const Index& right) const;
    int numbers() const;
    /// Numbers in it; at least the choice of what is otherwise. A layout has none.
    int choices() const { return is_layout ? 0 : std::max(numbers(), 1); }
};

/// Arrays of the same dimensions in another order.
std::vector<OtherIndex> other_layouts(const IndexedArray& array);

/// What somebody may have written in place of the right one, layouts among them.
std::vector<OtherIndex> other_indices(const IndexedArray& array);

}  // namespace tilescope
