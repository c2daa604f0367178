#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oracle/causes/array_addresses.h"

namespace tilescope {

/// An index into an array of all heads that is wrong in one of its numbers or extents.
struct OtherArrayIndex {
    std::string text;  ///< "head * 2 in place of head"
    int parameters = 0;
    /// Of the element in the row and column of a tile, from the beginning of the array; of any recording of the kernel.
    std::function<std::int64_t(const SearchedTile&, Eigen::Index row, Eigen::Index col)> address;
};

/// Those that nearly all wrong elements of the stage speak for. `stands_at`: whether the number of an element stands at
/// an address of the array; nullopt of elements that tell nothing.
using StandsAt = std::function<std::optional<bool>(const Observation&, Eigen::Index row, Eigen::Index col,
                                                   std::int64_t address)>;
std::vector<OtherArrayIndex> other_array_indices(const Evidence& evidence, const ArrayOfHeads& array,
                                                 const StandsAt& stands_at);

}  // namespace tilescope
