#pragma once

#include "oracle/causes/find_causes.h"

namespace tilescope {

/// Whether a mistake that was found in one recording explains another one, in which nothing is searched: replays
/// its tiles with it, with the numbers that were found there. `cause` is of find_causes() for a recording of `problem` that
/// still exists, not structural; `report` is that of `recording`.
/// Errors: Error for a damaged file, and for tiles or a head_dim of another shape.
Prediction predict(const FoundCause& cause, const Problem& problem, const Recording& recording,
                   const Report& report, const CauseOptions& options = {});

}  // namespace tilescope
