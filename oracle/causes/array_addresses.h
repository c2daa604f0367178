#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/solve/address_map.h"
#include "oracle/solve/value_index.h"

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

/// An operand or an output of all heads, [batch][heads][length][cols].
struct ArrayOfHeads {
    std::int64_t heads;
    std::int64_t length;
    std::int64_t cols;
    ValueIndex values;

    std::int64_t size_of_head() const { return length * cols; }
};

/// What the row of an index is counted from, as kernels do: from the tile, from the head, or from the array's
/// beginning.
enum class CountedFrom : std::uint8_t { tile, head, array };

/// The number of a tile's first row, counted so, and the address that maps are relative to.
struct Counting {
    std::int64_t first_row;
    std::int64_t address;
};
Counting counting(const SearchedTile& site, Stage stage, const ArrayOfHeads& array, CountedFrom from);

/// Where the first element of the tile stands.
std::int64_t origin(const SearchedTile& site, Stage stage, const ArrayOfHeads& array);

/// "flat_row" and what it is, where a map takes it.
std::vector<CauseParameter> meaning_of_row(Stage stage, CountedFrom from);

/// Addresses in the array that hold an element's value, from its beginning; nullopt: it does not vote.
using SourcesOf = std::function<std::optional<std::vector<std::int64_t>>(const Observation&, Eigen::Index row,
                                                                         Eigen::Index col)>;

/// Maps by the row that they take. Where values repeat, those far away are not looked at: strides that a tile tells
/// are tried for its head and the whole array as well.
std::map<CountedFrom, std::vector<AddressMap>> maps_in_array(const Evidence& evidence,
                                                             const ArrayOfHeads& array,
                                                             const SourcesOf& sources_of,
                                                             std::size_t most = 1);

}  // namespace tilescope
