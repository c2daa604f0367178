#pragma once

#include <vector>

#include "oracle/causes/cause.h"

namespace tilescope {

// Descales applied otherwise, in the stage that applies them: the operand, s, acc or o.

std::vector<Candidate> descale_missing(const Evidence& evidence);
std::vector<Candidate> descale_twice(const Evidence& evidence);
std::vector<Candidate> descale_of_other_head(const Evidence& evidence);

}  // namespace tilescope
