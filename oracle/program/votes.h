#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "oracle/program/conditions.h"

namespace tilescope {

/// Of a place that is wrong the numbers that it may have had: the indices at which what it needs stands, or the terms at which a
/// sum may have begun.
struct Vote {
    AxisIndices at{};
    std::vector<std::int64_t> indices{};
    std::int64_t declared = 0;  ///< index, where it is one
};

/// An axis whose indices are counted within their block; -1: none are.
struct Counted {
    int axis = -1;
    std::int64_t block = 1;

    std::int64_t origin(const AxisIndices& at) const {
        return axis < 0 ? 0 : at[std::size_t(axis)] / block * block;
    }
    bool is_there(std::int64_t y, const AxisIndices& at) const {
        return axis < 0 || (y >= origin(at) && y < origin(at) + block);
    }
};

/// For each number of the places the index that most places with it vote for; nullopt where too many vote otherwise, or for none.
using VotedIndices = std::vector<std::pair<std::int64_t, std::int64_t>>;
std::optional<VotedIndices> voted(const ProgramCall& call, const std::vector<Vote>& votes,
                                  const PlaceNumber& by, const Counted& counted = {});

/// Expressions of the number that the table gives, a few; they call it `voted_by`.
inline constexpr Coordinate voted_by = Coordinate::row;
inline constexpr std::size_t most_expressions = 3;
std::vector<Expr> expressions_of(const VotedIndices& table, std::size_t most = most_expressions);

}  // namespace tilescope
