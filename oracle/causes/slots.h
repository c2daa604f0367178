#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "oracle/causes/product_results.h"
#include "oracle/causes/variables.h"

namespace tilescope {

/// Where in a tile's memory, in rows of as many elements as the slot has columns, an element takes its number; beyond it
/// nothing is known.
using ReadAt =
    std::function<std::optional<std::int64_t>(const SearchedTile&, Eigen::Index row, Eigen::Index col)>;

/// A tile of numbers as an index reads it, of which `right` is the right one.
using Reader = std::function<Estimate(const SearchedTile&, const Estimate& right)>;

/// The mistake that an index of the slot is.
enum class SlotCause : std::uint8_t { moved, scores, numbers, factor, maximum };

/// A place in a stage's formula where each element takes one number, or what the stage itself holds: with an index, in which
/// a kernel can be mistaken. What it held is solved for from the dumped numbers.
struct Slot {
    SlotCause cause;
    bool (*is_of)(const Evidence&);
    const char* parameter;  ///< what the report says of it
    const char* name;       ///< of the array that is read, as kernels call it; "" where the parameter says it
    Variable variable = var::result;  ///< that the formula takes; of its own result, see `in_result`
    bool of_rows = false;             ///< a number for each row, not for each element
    bool is_exponent =
        false;  ///< the result's logarithm is a linear function of it, otherwise the result itself
    /// Another array of the same shape that is read in its place, of rows; nullopt: its own.
    std::optional<Expr> array = {};
    bool only_there = false;                               ///< that array at its own place and nowhere else
    SlotNumbers (*numbers)(const Observation&) = nullptr;  ///< null: they are solved for
    Change (*in_result)(Stage, const Reader&) = nullptr;
};

std::span<const Slot> all_slots();
/// Those that a kernel reads from an array of all heads: delta and lse of a backward pass.
std::span<const Slot> slots_of_heads();

/// Columns of the slot's numbers in a whole tile.
std::int64_t columns_of(const Slot& slot, const Problem& problem, Stage stage);

/// What the variable must have been in each element for what was dumped; `is_exponent`: see Slot.
SlotNumbers solve_for(Variable variable, bool is_exponent, const Observation& seen);
/// What the elements of a tile took, beside what they should have.
SlotNumbers numbers_of(const Slot& slot, const Observation& seen);

/// A kernel that reads the slot so.
Change reads_slot(const Slot& slot, Stage stage, const ReadAt& at);

}  // namespace tilescope
