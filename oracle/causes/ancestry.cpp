#include "oracle/causes/ancestry.h"

#include <algorithm>

#include "dump/recording/visible_tiles.h"
#include "oracle/causes/left_out_tiles.h"

namespace tilescope {

namespace {

/// Whether the blocks see tiles of which the dump has no scores, although it has others. What a run that did not
/// complete lacks was not left out.
bool lacks_tiles(const Evidence& evidence) {
    const CauseSearch& world = *evidence.world;
    const Recording& recording = world.recording();
    if (!world.has(Stage::s) || recording.capture().ended != "completed") return false;
    if (evidence.problem().direction != Direction::forward) return false;
    return std::ranges::any_of(evidence.blocks, [&](const TileId& block) {
        const Problem& problem = world.call(block.batch, block.head)->problem;
        for (TileId tile = block; tile.kv_tile < problem.kv_tiles(); ++tile.kv_tile)
            if ((!recording.has_tile(Stage::s, tile) || is_left_out(world, tile)) &&
                tile_is_seen(recording, problem, tile))
                return true;
        return false;
    });
}

}  // namespace

std::vector<Stage> acting_stages(const Evidence& evidence) {
    std::vector<Stage> stages = stages_leading_to(evidence.problem().direction, evidence.observed,
                                                  [&](Stage stage) { return evidence.world->has(stage); });
    if (evidence.observed > Stage::s && lacks_tiles(evidence)) {
        stages.push_back(Stage::s);
        std::ranges::sort(stages);
    }
    return stages;
}

}  // namespace tilescope
