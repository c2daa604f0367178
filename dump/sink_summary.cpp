#include "dump/sink_summary.h"

#include <algorithm>

namespace tilescope {

StageCapture summarise_stage(const CapturePlan& plan, const Sink& sink, Stage stage) {
    const std::size_t index = std::size_t(stage);
    const std::int64_t capacity = plan.capacity(stage);
    StageCapture summary;
    for (std::int64_t slot = 0; slot < capacity; ++slot) {
        const std::uint32_t conflicts = sink.stages[index].conflicts[slot];
        if (conflicts != 0) summary.conflicts.push_back({plan.tile_of_slot(stage, slot), conflicts});
    }
    summary.elements_out_of_range = std::int64_t(sink.counters->out_of_range[index]);
    summary.elements_dropped = std::int64_t(sink.counters->dropped[index]);
    if (summary.elements_dropped == 0) return summary;
    const std::int64_t listed = std::min(plan.selected_tiles(stage), capacity + max_listed_dropped);
    for (std::int64_t slot = capacity; slot < listed; ++slot) {
        summary.dropped.push_back(plan.tile_of_slot(stage, slot));
    }
    return summary;
}

}  // namespace tilescope
