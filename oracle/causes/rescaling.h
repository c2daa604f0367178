#pragma once

#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

// What l and acc are rescaled by when the running maximum rises.

std::vector<Candidate> not_rescaled(const Evidence& evidence);
std::vector<Candidate> rescaled_inversely(const Evidence& evidence);
std::vector<Candidate> rescaled_twice(const Evidence& evidence);

}  // namespace tilescope
