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

/// Indices into the array that nearly all wrong elements of the stage speak for. `stands_at`: whether the number of an element stands at
/// an address of the array; nullopt of elements that tell nothing.
using StandsAt = std::function<std::optional<bool>(const Observation&, Eigen::Index row, Eigen::Index col,
                                                   std::int64_t address)>;
std::vector<OtherIndex> other_array_indices(const Evidence& evidence, const IndexedArray& array,
                                            const StandsAt& stands_at);

}  // namespace tilescope
