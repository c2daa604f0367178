#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oracle/describe/expr.h"

namespace tilescope {

/// An element of a tile, and all addresses in an array that hold its value, relative to where it should come from
/// were it the first of the tile.
struct AddressSample {
    std::int64_t row = 0;
    std::int64_t col = 0;
    std::vector<std::int64_t> sources;  ///< ascending
};

/// down * row + along * col + offset.
struct Strides {
    std::int64_t down = 0;
    std::int64_t along = 0;
    std::int64_t offset = 0;
};

/// From which address an element of a tile came.
struct AddressMap {
    /// By row and column, of rows of as many elements as its extent; or of one part, into memory without rows. What is
    /// between the end of a row and the next one is not known.
    Index index;
    TileAxes axes;
    int parameters = 0;                ///< numbers in the index
    std::optional<Strides> strides{};  ///< where it is made of two and nothing else

    bool has_rows() const { return index.parts.size() == 2; }
    std::int64_t apply(std::int64_t row, std::int64_t col) const { return index.at(axes, row, col); }
    /// The row of the array that is meant, where there are rows.
    std::int64_t row_of(std::int64_t row, std::int64_t col) const {
        return index.parts[0].at(axes, row, col);
    }
    std::string text() const { return index.text(); }
};

/// The same index into an array with rows of `ld` elements. A map of memory without rows stays as it is.
AddressMap in_rows_of(const AddressMap& map, std::int64_t ld);

/// Numbers that were chosen to describe it: its own, and which kind of map it is. A name for the same map costs less.
inline int cost_of(const AddressMap& map) {
    return map.parameters + 1;
}

/// `ld`: elements from a row of the array to the next.
AddressMap map_of_strides(const Strides& strides, std::int64_t ld, const TileAxes& axes);

/// The map that explains nearly all samples that have sources; nullopt where there is none, and where most have no
/// source: what lies beyond the array is not known. Values repeat in quantised arrays: an
/// address is known from many samples, by votes. `ld`: elements from a row of the array to the next.
/// Tried in this order: any two strides and an offset; any source row for each row, if a formula says which; any
/// source column for each column; each bit of the address an exclusive or of bits of row and column.
std::optional<AddressMap> find_address_map(std::span<const AddressSample> samples, std::int64_t ld,
                                           const TileAxes& axes);

/// At most so many maps of the kind that is found: where few elements are known several fit.
std::vector<AddressMap> find_address_maps(std::span<const AddressSample> samples, std::int64_t ld,
                                          const TileAxes& axes, std::size_t most);

}  // namespace tilescope
