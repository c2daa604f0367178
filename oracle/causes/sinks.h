#pragma once

#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

// A sink that starts the running state, in m and l, or that joins l in the end, in o and lse.

std::vector<Candidate> sink_missing_at_start(const Evidence& evidence);
std::vector<Candidate> sink_twice(const Evidence& evidence);
std::vector<Candidate> sink_scaled(const Evidence& evidence);
std::vector<Candidate> sink_of_other_head(const Evidence& evidence);

}  // namespace tilescope
