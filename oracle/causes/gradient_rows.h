#pragma once

#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

/// The number of each row that a stage of the backward pass takes, delta or lse, is that of another row, of any head.
std::vector<Candidate> rows_of_heads_read_elsewhere(const Evidence& evidence);

}  // namespace tilescope
