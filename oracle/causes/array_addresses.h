#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/solve/address_map.h"

namespace tilescope {

// Addresses in tiles, told by the values that stand there.

/// A zero stands anywhere, a NaN nowhere.
inline bool tells_address(double value) {
    return std::isfinite(value) && value != 0;
}

/// The addresses that an element of a tile speaks for; nullopt: none.
using SampleOf =
    std::function<std::optional<AddressSample>(const Observation&, Eigen::Index row, Eigen::Index col)>;

/// Maps that bad tiles speak for, each tile by itself and several together, each once. `ld`: elements from a row of
/// the array to the next. `most`: maps of the same samples, where several fit.
std::vector<AddressMap> voted_maps(const Evidence& evidence, std::int64_t ld, const TileAxes& axes,
                                   const SampleOf& sample_of, std::size_t most = 1);

}  // namespace tilescope
