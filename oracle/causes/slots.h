#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "oracle/causes/product_results.h"
#include "oracle/causes/walk.h"

namespace tilescope {

/// Where in a tile's memory, in rows of as many elements as the slot has columns, an element takes its number; beyond it
/// nothing is known.
using ReadAt =
    std::function<std::optional<std::int64_t>(const SearchedTile&, Eigen::Index row, Eigen::Index col)>;

/// A tile of numbers as an index reads it, of which `right` is the right one.
using Reader = std::function<Estimate(const SearchedTile&, const Estimate& right)>;

/// What a stage holds, or a part of what it is computed from, of which each element may stand in the place of another one.
struct Slot {
    bool (*is_of)(const Evidence&);
    const char* parameter;  ///< what the report says of it
    SlotNumbers (*numbers)(
        const Observation&);  ///< what the elements of a tile took, beside what they should have
    Change (*reads)(Stage, const Reader&);
};

std::span<const Slot> all_slots();

/// A kernel that reads the slot so.
Change reads_slot(const Slot& slot, Stage stage, const ReadAt& at);

}  // namespace tilescope
