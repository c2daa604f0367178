#pragma once

#include <cstdint>
#include <optional>

#include "dump/recording/capture_plan.h"
#include "dump/recording/memory_block.h"
#include "dump/recording/recorded_call.h"

namespace tilescope {

/// What hooks kept of one tile in SinkMode::statistics, in float32 and counts.
struct TileSummary {
    std::uint32_t hash = 0;    ///< over bits and places: the same for the same writes in any order
    std::int64_t written = 0;  ///< writes: an element that several threads write counts for each of them
    std::int64_t nan = 0;
    std::int64_t infinite = 0;
    std::int64_t zero = 0;
    float least = 0;  ///< of the finite elements; both are NaN where there are none
    float greatest = 0;
    /// Of the finite elements. Each thread adds up its part in float32 and rounds it to a multiple of
    /// statistics_unit; a part beyond +-2^28 counts as +-2^28. The parts are added exactly.
    double sum = 0;
    double sum_of_squares = 0;

    std::int64_t finite() const { return written - nan - infinite; }
    /// Largest magnitude of a finite element.
    double magnitude() const;
    /// Of the finite elements; NaN where there are none.
    double mean() const { return sum / double(finite()); }
    double rms() const;
};

TileSummary summary_of(const TileStatistics& statistics);

/// A finished capture that kept statistics, in host memory. It holds no tiles.
class StatisticsRun final : public RecordedCall {
 public:
    /// `memory` is the plan's block as the kernel left it. Errors: Error when it has another size than the
    /// plan needs, and when the plan is of another mode than SinkMode::statistics.
    StatisticsRun(CapturePlan plan, MemoryBlock memory, RecordedCall call);
    StatisticsRun(StatisticsRun&&) = default;

    const CapturePlan& plan() const { return plan_; }
    /// Nullopt where the tile is not selected or had no room. A tile that no hook wrote has written == 0.
    std::optional<TileSummary> tile(Stage stage, const TileId& tile) const;
    /// Whether a hook wrote to any tile of the stage.
    bool is_hooked(Stage stage) const { return hooked_ >> unsigned(stage) & 1u; }

 private:
    CapturePlan plan_;
    MemoryBlock memory_;
    Sink sink_;
    std::uint32_t hooked_ = 0;
};

}  // namespace tilescope
