#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dump/schema.h"
#include "oracle/describe/expr.h"

namespace tilescope {

/// An array [split][row][element] that a merge reads: block_m rows of `elements`.
struct MergedArray {
    std::int64_t splits = 1;
    std::int64_t rows = 1;
    std::int64_t elements = 1;
    Coordinate element =
        Coordinate::nothing;  ///< what its last number counts, lane or d; nothing: it has none
};

/// Where a merge may read an array in place of its own place, and how that is said.
struct MergeAddress {
    std::string text;  ///< "of row ^ 4"
    Expr address;
    int choices = 0;
};

/// Those that somebody may have written, the simplest first: one number of the address is another one, two are exchanged,
/// or splits or rows lie at another distance.
std::vector<MergeAddress> merge_addresses(const Problem& problem, const MergedArray& array);

}  // namespace tilescope
