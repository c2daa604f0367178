#pragma once

#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

/// Candidates of the same change of the operands of a sum, in some of its terms alone: which have it, the wrong sums tell.
/// None where all have it, where no regular places are those, and of gradients.
std::vector<Candidate> in_some_terms(const Evidence& evidence, const Candidate& candidate);

}  // namespace tilescope
