#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracle/solve/address_map.h"

namespace tilescope {

/// Indices whose row or column is a form of itself, or the other of the two, or whose rows have another length: those that
/// most samples agree with, the simplest first of equals; at most so many. Samples may stand elsewhere by chance, or have been written over.
/// `rows`, `cols`: of a tile, `ld`: elements from a row to the next, which the samples' addresses count in.
std::vector<AddressMap> find_tile_indices(std::span<const AddressSample> samples, std::int64_t rows,
                                          std::int64_t cols, std::int64_t ld, const TileAxes& axes,
                                          std::size_t most);

}  // namespace tilescope
