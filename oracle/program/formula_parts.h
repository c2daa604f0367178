#pragma once

#include <vector>

#include "dump/schema/program.h"

namespace tilescope {

/// Whether places are in a formula, and not numbers alone.
bool takes_axis(const Program& program, int number);

/// A factor, a term or a condition of a formula.
struct FormulaPiece {
    int node = -1;
    bool is_inverse = false;  ///< it is divided by, or subtracted
};

/// What stands in one formula in place of something in another one, around which both are the same. Products, sums and conditions are
/// taken as what they join, in any order.
struct FormulaPart {
    /// What joins the pieces: times, plus or both; chosen: of one whole part in place of another.
    ProgramOp joined_by = ProgramOp::chosen;
    std::vector<FormulaPiece> was{};
    std::vector<FormulaPiece> is{};
    /// Of the factors that are numbers: all that was, and all that is there over that.
    double number = 1;
    double ratio = 1;
    /// Of the places that have it, or of those that have not; -1: all.
    int condition = -1;
    bool is_elsewhere = false;
    /// Nodes that the part stands in, what else is joined there, and what all of that is multiplied with.
    std::vector<int> around{};
    int joined_in = -1;      ///< the product or sum as it was whose pieces these are
    bool is_in_sum = false;  ///< or in a maximum, of the formula as it was
    /// The innermost `x where c else y` in whose c or y it is; -1: none.
    int decided_by = -1;
    /// The innermost comparison that it is in, of both formulas; -1: none.
    int compared_was = -1;
    int compared_is = -1;
};

/// What `becomes` has in place of `declared`; both are nodes of the program.
std::vector<FormulaPart> changed_parts_of(const Program& program, int declared, int becomes);

}  // namespace tilescope
