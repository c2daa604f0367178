#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "oracle/identify/address_map.h"

namespace tilescope {

/// An index into a tile's memory, row * ld + col, in which one number stands for another: "[row][d / 2 * 2]".
struct TileIndex {
    std::function<std::int64_t(std::int64_t row, std::int64_t col, std::int64_t ld)> of;
    std::string text;
    int numbers = 0;  ///< in it

    /// Numbers that were chosen to describe it, and which number is another.
    int cost() const { return numbers + 1; }
};

/// Indices whose row or column is a form of itself, or the other of the two, or whose rows have another length: those that
/// most samples agree with, the simplest first of equals; at most so many. Samples may stand elsewhere by chance, or have been written over.
/// `rows`, `cols`: of a tile, `ld`: elements from a row to the next, which the samples' addresses count in.
std::vector<TileIndex> find_tile_indices(std::span<const AddressSample> samples, std::int64_t rows,
                                         std::int64_t cols, std::int64_t ld, const AddressNames& names,
                                         std::size_t most);

}  // namespace tilescope
