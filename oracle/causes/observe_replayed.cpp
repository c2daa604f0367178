#include "oracle/causes/observe_replayed.h"

#include <algorithm>

#include "oracle/causes/in_parallel.h"
#include "oracle/causes/replayed.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

void observe_block(const CauseSearch& world, const FoundCause& cause, const TileId& block,
                   const ObservedTileFunction& observe) {
    const Problem& problem = world.call(block.batch, block.head)->problem;
    for (const ReplayedTile& tile : replayed_tiles(world, cause, block)) {
        const auto got = load_tile(world.recording(), problem, cause.observed, tile.id);
        if (!got) continue;
        // A mistake may leave NaN and unwritten elements: those are expected, then.
        const TileContext context =
            observed_context(world.recording(), problem, cause.observed, tile.id, *got, true);
        observe({problem, context, *got, &tile.expected, world.compare()});
    }
}

}  // namespace

void observe_replayed(const Recording& recording, const Report& report, const FoundCause& cause,
                      const CauseOptions& options, std::int64_t batch, std::int64_t head,
                      std::optional<std::int64_t> q_block, const ObservedTileFunction& observe) {
    const CauseSearch world(recording, options.compare, report.confidence, options.check);
    const Problem entry = problem_of(recording.problem(), recording.side_inputs(), batch);
    const bool by_keys = is_of_all_queries(cause.observed);
    const std::int64_t blocks = by_keys ? entry.kv_tiles() : entry.q_blocks();
    const std::int64_t first = by_keys ? 0 : q_block.value_or(0);
    const std::int64_t last = by_keys || !q_block ? blocks : std::min(first + 1, blocks);
    in_parallel(std::size_t(std::max<std::int64_t>(0, last - first)), options.threads, [&](std::size_t i) {
        const std::int64_t block = first + std::int64_t(i);
        observe_block(world, cause, {batch, head, by_keys ? 0 : block, by_keys ? block : 0}, observe);
    });
}

}  // namespace tilescope
