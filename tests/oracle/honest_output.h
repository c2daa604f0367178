#pragma once

#include <vector>

#include "tests/oracle/honest_block.h"

namespace tilescope::test {

/// Computes and records o and lse from the states of all splits.
void write_outputs(Block& block, const std::vector<State>& splits);

}  // namespace tilescope::test
