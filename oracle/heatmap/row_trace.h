#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "dump/recording.h"
#include "oracle/heatmap/colour.h"
#include "oracle/judge.h"

namespace tilescope {

/// One row of one tile.
struct TracePoint {
    bool captured = false;
    bool judged_bad = false;  ///< some element diverges
    double dumped_low = 0;    ///< smallest and largest finite dumped value; NaN where there is none
    double dumped_high = 0;
    double expected_low = 0;
    double expected_high = 0;
    double over_budget = 0;  ///< largest; infinity where a divergence has no finite one
    KindFlags kinds = 0;     ///< flags of Kind of what was dumped
};

/// One q row across the KV tiles.
struct RowTrace {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;
    /// By stage and KV tile: s, m, p, l, acc, dp, ds, and named tiles whose rows are q rows and that have KV
    /// tiles; the others are empty.
    std::array<std::vector<TracePoint>, stage_count> stages;

    const std::vector<TracePoint>& stage(Stage which) const {
        return stages[static_cast<std::size_t>(which)];
    }
};

/// Judges the row's query block, stage-local. `other`: null for the oracle. Errors: as judge().
RowTrace trace_row(const Recording& recording, const Recording* other, const JudgeOptions& options,
                   std::int64_t batch, std::int64_t head, std::int64_t row);

/// The KV tile at which the drift jumps: where its ratio to the KV tile before is largest, if that is at
/// least 8; otherwise -1.
std::int64_t knee_of(const std::vector<double>& drift);

}  // namespace tilescope
