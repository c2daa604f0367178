#pragma once

#include <cstdint>
#include <vector>

#include "viewer/session/session.h"
#include "viewer/state/bad_places.h"

namespace tilescope::viewer {

/// Rows of a head that follow each other as one place, with what the map knows of their tiles. `rows`: of the list, in
/// order.
std::vector<BadPlace> join_rows(const Document& document, const BadList& list,
                                const std::vector<BadPlace>& rows);

/// What the map leaves open of ranges that share tiles, from the pictures of difference / budget; ranges for which there are
/// too many, or that hold blocks of elements, stay inexact. False: pictures are being made; ask again.
bool refine_ranges(Session& session, const Document& document, const BadList& list,
                   std::vector<BadPlace>& ranges);

/// The row of a range with the largest difference / budget.
struct WorstRow {
    bool complete = true;  ///< false: a picture that says it is being made; ask again
    std::int64_t row = 0;
    float worst = 0;
    bool exact = true;  ///< every picture that counts holds elements
};
WorstRow worst_row(Session& session, const Document& document, const BadList& list, const BadPlace& range);

}  // namespace tilescope::viewer
