#pragma once

#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

/// Sums and maxima that begin, or end, at another term than they should: by a number, or by a coordinate of their element.
std::vector<Candidate> sum_of_other_range(const Evidence& evidence);

}  // namespace tilescope
