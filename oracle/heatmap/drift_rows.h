#pragma once

#include <cstdint>
#include <functional>

#include "dump/recording.h"
#include "oracle/formula/estimate.h"

namespace tilescope {

/// Deviation of the dumped running state of a head from the exact one, end to end, as Drift has it: q rows by
/// KV tiles. NaN where it was not captured; infinity where a dumped value is not finite although the exact
/// one is.
struct DriftRows {
    MatrixF m;    ///< absolute, natural units
    MatrixF l;    ///< relative to the exact l
    MatrixF acc;  ///< relative to the largest exact |acc| of the row
};

/// Of one head. `progress` as in JudgeOptions; it may throw to stop. Errors: as judge().
DriftRows drift_rows(const Recording& recording, std::int64_t batch, std::int64_t head, double confidence,
                     const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace tilescope
