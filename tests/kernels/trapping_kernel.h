#pragma once

#include "kernels/attention/builds.h"

namespace tilescope::hooked {

/// A kernel that records 1 in the first element of each Q tile and then traps.
extern const CudaBuild trapping;

}  // namespace tilescope::hooked
