#include "dump/recording/tile_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "dump/recording/sink_contents.h"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

/// The value whose bits HookStatistics::least() of dump/hook/statistics.h ordered like this.
float value_of_ordered(std::uint32_t bits) {
    return std::bit_cast<float>((bits & 0x80000000u) != 0 ? bits & 0x7fffffffu : ~bits);
}

}  // namespace

double TileSummary::magnitude() const {
    return std::max(std::abs(double(least)), std::abs(double(greatest)));
}

double TileSummary::rms() const {
    return std::sqrt(sum_of_squares / double(finite()));
}

TileSummary summary_of(const TileStatistics& statistics) {
    TileSummary summary;
    summary.hash = statistics.hash;
    summary.written = statistics.written;
    summary.nan = statistics.nan;
    summary.infinite = statistics.infinite;
    summary.zero = statistics.zero;
    const bool none = summary.finite() == 0;
    summary.least = none ? std::numeric_limits<float>::quiet_NaN() : value_of_ordered(statistics.least);
    summary.greatest = none ? summary.least : value_of_ordered(statistics.greatest);
    summary.sum = double(statistics.sum) * statistics_unit;
    summary.sum_of_squares = double(statistics.sum_of_squares) * statistics_unit;
    return summary;
}

StatisticsRun::StatisticsRun(CapturePlan plan, MemoryBlock memory, RecordedCall call)
    : RecordedCall(std::move(call)), plan_(std::move(plan)), memory_(std::move(memory)) {
    require_bytes("the sink's memory", memory_.size(), plan_.bytes());
    if (plan_.mode() != SinkMode::statistics) {
        throw Error("the sink holds tiles, no statistics", "statistics", "capture in SinkMode::statistics");
    }
    sink_ = plan_.sink(memory_.data());
    capture_.selection = plan_.selection();
    for (const StageInfo& info : stages_of(plan_.problem())) {
        const std::size_t index = std::size_t(info.stage);
        capture_.stages[index] = summarise_stage(plan_, sink_, info.stage);
        const TileStatistics* const tiles = sink_.stages[index].statistics;
        const auto written = [](const TileStatistics& tile) { return tile.written > 0; };
        if (std::any_of(tiles, tiles + plan_.capacity(info.stage), written)) hooked_ |= 1u << index;
    }
}

std::optional<TileSummary> StatisticsRun::tile(Stage stage, const TileId& tile) const {
    const std::int64_t slot = plan_.tile_slot(stage, tile);
    if (slot < 0 || slot >= plan_.capacity(stage)) return std::nullopt;
    return summary_of(sink_.stages[std::size_t(stage)].statistics[slot]);
}

}  // namespace tilescope
