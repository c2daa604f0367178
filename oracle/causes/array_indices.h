#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oracle/causes/array_addresses.h"
#include "oracle/solve/array_index.h"

namespace tilescope {

/// The array of all heads that a stage is loaded from or stored to, as kernels index it.
IndexedArray indexed_array(Stage stage, const Problem& problem);

/// An index into an array of all heads that is wrong in one of its numbers or extents.
struct OtherArrayIndex {
    std::string text;  ///< "head * 2 in place of head"
    int choices = 0;
    Index index;
};

/// Those that nearly all wrong elements of the stage speak for. `stands_at`: whether the number of an element stands at
/// an address of the array; nullopt of elements that tell nothing.
using StandsAt = std::function<std::optional<bool>(const Observation&, Eigen::Index row, Eigen::Index col,
                                                   std::int64_t address)>;
std::vector<OtherArrayIndex> other_array_indices(const Evidence& evidence, const StandsAt& stands_at);

}  // namespace tilescope
