#pragma once

#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

/// O that holds the operand in whose memory it is staged.
std::vector<Candidate> staged_over_operand(const Evidence& evidence);

}  // namespace tilescope
