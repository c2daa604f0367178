#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "oracle/describe/expr.h"

namespace tilescope {

// What an author may have written in the place of one number of an index.

/// The coordinate by itself, changed: moved, cut off, a rest, another order, exchanged bits. Each of them changes at least one
/// of the numbers of its range. Numbers in it are at most `most`.
std::vector<Expr> edits_of(const CoordinateRange& own, std::int64_t most);

/// The same, and other coordinates beside it or in its place, but for those that are always 0.
std::vector<Expr> edits_with(const CoordinateRange& own, std::span<const CoordinateRange> others,
                             std::int64_t most);

/// Forms of the coordinate with one number n up to `most`, the smallest first, until `visit` returns false.
void for_each_form(Coordinate of, std::int64_t most, const std::function<bool(const Expr&)>& visit);

}  // namespace tilescope
