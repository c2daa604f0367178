#pragma once

#include <functional>
#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

/// The candidates of `generate`, and where neither K nor V was dumped and both show: the same mistake made in the loads
/// of both, as kernels make it that compute one address for the two.
std::function<std::vector<Candidate>(const Evidence&)> of_both_operands(
    std::function<std::vector<Candidate>(const Evidence&)> generate);

}  // namespace tilescope
