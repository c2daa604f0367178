#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dump/schema.h"
#include "oracle/causes/merge_reads.h"

namespace tilescope {

/// An array [split][row][element] that a merge reads: block_m rows of `elements`.
struct MergedArray {
    std::int64_t splits = 1;
    std::int64_t rows = 1;
    std::int64_t elements = 1;
    std::string element;  ///< what its last number counts, "lane" or "d"; "": it has none
};

/// Where a merge may read an array in place of its own place, and how that is said.
struct MergeAddress {
    std::string text;  ///< "of row ^ 4"
    MergeNumber address;
    int numbers = 0;  ///< in the text
};

/// Those that somebody may have written, the simplest first: one number of the address is another one, two are exchanged,
/// or splits or rows lie at another distance.
std::vector<MergeAddress> merge_addresses(const Problem& problem, const MergedArray& array);

}  // namespace tilescope
