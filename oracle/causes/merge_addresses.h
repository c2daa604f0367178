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

/// What an author may have written otherwise in the address that a merge reads.
enum class OtherRead : std::uint8_t {
    number,      ///< one of its numbers, computed otherwise
    coordinate,  ///< another coordinate in the place of one
    exchanged,   ///< two of its coordinates
    splits_apart,
    rows_apart,
};

/// Where a merge may read an array in place of its own place.
struct MergeAddress {
    Expr address;
    OtherRead kind = OtherRead::number;
    Coordinate of = Coordinate::nothing;  ///< the coordinate that is otherwise
    Expr instead = 0;                     ///< what stands in its place, or the distance

    /// "of row ^ 4"
    std::string text() const;
    int choices() const;
};

/// Those that somebody may have written, the simplest first: one number of the address is another one, two are exchanged,
/// or splits or rows lie at another distance.
std::vector<MergeAddress> merge_addresses(const Problem& problem, const MergedArray& array);

}  // namespace tilescope
