#pragma once

#include <string>
#include <vector>

#include "tests/oracle/definition_backward.h"

namespace tilescope::test {

/// A call whose gradients PyTorch computed in float64. What was not recorded is empty; s never was, and
/// beyond a batch entry's lengths there is anything.
struct TorchBackwardCase {
    std::string name;
    BackwardCall call;  ///< o and lse by the forward definition, exact
    BackwardTensors recorded;
};

/// What tests/data/record_torch_backward.py recorded. Throws for a file that is not that.
std::vector<TorchBackwardCase> read_torch_backward(const std::string& path);

}  // namespace tilescope::test
