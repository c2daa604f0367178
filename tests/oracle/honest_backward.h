#pragma once

#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

/// What run_kernel() does for a backward call.
void compute_gradients(const Call& call, const Plant& plant, KernelRun& run);

}  // namespace tilescope::test
