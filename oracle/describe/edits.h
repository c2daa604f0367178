#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracle/describe/expr.h"

namespace tilescope {

// What an author may have written in the place of one number of an index.

/// The coordinate by itself, changed: moved, cut off, a rest, another order, exchanged bits. Each of them changes at least one
/// of the numbers of its range. Numbers in it are at most `most`; moves up to 32, and exclusive ors and orders up to 8, are
/// among them even so, since they lead out of short ranges, and exclusive ors with powers of two within the range.
std::vector<Expr> edits_of(const CoordinateRange& own, std::int64_t most);

/// The same, and other coordinates beside it or in its place, but for those that are always 0.
std::vector<Expr> edits_with(const CoordinateRange& own, std::span<const CoordinateRange> others,
                             std::int64_t most);

}  // namespace tilescope
