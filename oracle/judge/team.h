#pragma once

#include <omp.h>

#include "dump/cli/threads.h"

namespace tilescope {

/// Threads of a parallel region that is asked for `threads`, 0 for one a core.
inline int team_size(int threads) {
    return startable_threads(threads > 0 ? threads : omp_get_max_threads());
}

}  // namespace tilescope
