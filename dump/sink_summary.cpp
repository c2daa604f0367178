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
    const SinkLoss& outside = sink.counters->out_of_range[index];
    summary.elements_out_of_range = std::int64_t(outside.elements);
    if (outside.elements != 0) {
        const std::int32_t(&first)[6] = outside.first;
        summary.first_out_of_range = OutOfRange{{first[0], first[1], first[2], first[3]}, first[4], first[5]};
    }
    summary.elements_dropped = std::int64_t(sink.counters->dropped[index].elements);
    if (summary.elements_dropped == 0) return summary;
    const std::int64_t listed = std::min(plan.selected_tiles(stage), capacity + max_listed_dropped);
    for (std::int64_t slot = capacity; slot < listed; ++slot) {
        summary.dropped.push_back(plan.tile_of_slot(stage, slot));
    }
    return summary;
}

}  // namespace tilescope
