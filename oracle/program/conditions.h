#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dump/recording/program_call.h"
#include "oracle/program/build.h"

namespace tilescope {

/// Where something is: the index along each axis; of an axis that is known by its block alone the first one there.
using AxisIndices = std::array<std::int32_t, ProgramLimits::axes>;

/// A number of a place that an index or a condition may be computed from.
struct PlaceNumber {
    enum class Kind : std::uint8_t { index, block, within };
    int axis = -1;
    Kind kind = Kind::index;

    std::int64_t of(const ProgramCall& call, const AxisIndices& at) const;
    /// What it counts up to; of blocks the first that is not full, if there is one.
    std::int64_t end(const ProgramCall& call) const;
    int node(ProgramBuilder& build) const;
    int end_node(ProgramBuilder& build) const;
};

/// The indices of these axes, the blocks of those among them and of others that are cut, and the indices within blocks.
std::vector<PlaceNumber> place_numbers(const Program& program, const std::vector<int>& axes,
                                       const std::vector<int>& by_block = {});

struct LabelledIndices {
    AxisIndices at{};
    bool is_inside = false;
};

struct FoundCondition {
    int node = -1;
    double bits = 0;
};

/// The shortest condition of these numbers that holds of nearly all places that are inside, and of nearly none of the others; nullopt
/// where there is none.
std::optional<FoundCondition> find_condition(const ProgramCall& call, ProgramBuilder& build,
                                             const std::vector<LabelledIndices>& places,
                                             const std::vector<PlaceNumber>& numbers);

/// Bits of a whole number, by its Elias gamma code; of an expression of whole numbers.
double bits_of_number(std::int64_t number);
double bits_of_expression(const Expr& expr);

}  // namespace tilescope
