#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/solve/address_map.h"

namespace tilescope {

// Addresses in tiles and in arrays of all heads, told by the values that stand there.

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

/// The dimensions of the array of all heads that a stage is loaded from or stored to, [batch][heads][length][cols].
struct ArrayExtents {
    std::int64_t batch;
    std::int64_t heads;
    std::int64_t length;
    std::int64_t cols;

    std::int64_t size_of_head() const { return length * cols; }
    std::int64_t size() const { return batch * heads * size_of_head(); }
};
ArrayExtents array_shape(Stage stage, const Problem& problem);

/// Where the first element of the tile stands.
std::int64_t origin(const SearchedTile& site, Stage stage);

/// Addresses in the array that hold an element's value, from its beginning; nullopt: it does not vote.
using SourcesOf = std::function<std::optional<std::vector<std::int64_t>>(const Observation&, Eigen::Index row,
                                                                         Eigen::Index col)>;

}  // namespace tilescope
