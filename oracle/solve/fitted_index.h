#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "oracle/describe/expr.h"

namespace tilescope {

/// Numbers x with what an index makes of them.
using IndexTable = std::span<const std::pair<std::int64_t, std::int64_t>>;

/// The shortest expression of x that is right for nearly all (x, y); nullopt where there is none, and for fewer than three x.
/// Tried: a * x + c, x ^ c, rests and multiples of n, an order within n, min and max, and any exchange of bits.
std::optional<Expr> fitted_index(IndexTable table, Coordinate x);

/// At most so many expressions that are right, in the order in which they are tried. Where few x are known several are.
std::vector<Expr> fitted_indices(IndexTable table, Coordinate x, std::size_t most);

}  // namespace tilescope
