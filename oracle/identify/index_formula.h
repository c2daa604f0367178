#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilescope {

/// One whole number computed from another, as in an index of a kernel.
struct IndexFormula {
    std::function<std::int64_t(std::int64_t)> apply;
    std::string text;            ///< "(row ^ 4) + 16"
    int parameters = 0;          ///< numbers in it
    bool binds_loosely = false;  ///< in a sum it stands in parentheses
};

/// The shortest formula that is right for nearly all (x, y); nullopt where there is none, and for fewer than three x.
/// Tried: a * x + c, x ^ c, rests and multiples of n, an order within n, min and max, and any exchange of bits.
std::optional<IndexFormula> describe_indices(std::span<const std::pair<std::int64_t, std::int64_t>> table,
                                             std::string_view name);

/// At most so many formulas that are right, in the order in which they are tried. Where few x are known several are.
std::vector<IndexFormula> describe_indices(std::span<const std::pair<std::int64_t, std::int64_t>> table,
                                           std::string_view name, std::size_t most);

}  // namespace tilescope
