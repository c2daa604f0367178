#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "oracle/causes/array_addresses.h"
#include "oracle/solve/array_index.h"

namespace tilescope {

/// The array of all heads that a stage is loaded from or stored to, as kernels index it.
IndexedArray indexed_array(Stage stage, const Problem& problem);

/// The address in the array, from its beginning, of each element of a tile.
using AddressInTile = std::function<std::int64_t(Eigen::Index row, Eigen::Index col)>;
AddressInTile addresses_by(const Index& index, Stage stage, const SearchedTile& site);

}  // namespace tilescope
