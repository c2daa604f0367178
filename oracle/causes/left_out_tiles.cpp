#include "oracle/causes/left_out_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "oracle/judge/tile_judge.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

bool holds_anything(const Recording& recording, Stage stage, const TileId& tile) {
    if (!recording.has_tile(stage, tile)) return false;
    const Problem entry = problem_of(recording.problem(), recording.side_inputs(), tile.batch);
    const std::optional<MatrixF> values = load_tile(recording, entry, stage, tile);
    return values && !std::all_of(values->data(), values->data() + values->size(), is_unwritten);
}

}  // namespace

std::optional<bool> was_computed(const CauseSearch& world, const TileId& tile) {
    const Recording& recording = world.recording();
    const std::string name =
        fmt::format("computed {} {} {} {}", tile.batch, tile.head, tile.q_block, tile.kv_tile);
    return *world.once<std::optional<bool>>(name, [&] {
        std::optional<bool> computed;
        for (const Stage stage : forward_tile_stages) {
            if (!recording.has_stage(stage)) continue;
            if (holds_anything(recording, stage, tile)) return std::optional(true);
            computed = false;
        }
        return computed;
    });
}

bool is_left_out(const CauseSearch& world, const TileId& tile) {
    return was_computed(world, tile) == false;
}

}  // namespace tilescope
