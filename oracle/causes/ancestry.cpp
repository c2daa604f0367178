#include "oracle/causes/ancestry.h"

#include <algorithm>

#include "dump/recording/visible_tiles.h"
#include "oracle/causes/left_out_tiles.h"

namespace tilescope {

namespace {

/// A stage, and those that it is computed from at once.
struct Ancestry {
    Stage stage;
    std::vector<Stage> before;
};

std::vector<Stage> parents(Direction direction, Stage stage) {
    static const std::vector<Ancestry> forward = {
        {Stage::s, {Stage::q, Stage::k}},
        {Stage::m, {Stage::s}},
        {Stage::p, {Stage::s, Stage::m}},
        {Stage::l, {Stage::m, Stage::p}},
        {Stage::acc, {Stage::v, Stage::m, Stage::p}},
        {Stage::o, {Stage::m, Stage::l, Stage::acc}},
        {Stage::lse, {Stage::m, Stage::l}},
    };
    static const std::vector<Ancestry> backward = {
        {Stage::s, {Stage::q, Stage::k}},
        {Stage::p, {Stage::s}},
        {Stage::delta, {Stage::dout}},
        {Stage::dp, {Stage::v, Stage::dout}},
        {Stage::ds, {Stage::s, Stage::p, Stage::delta, Stage::dp}},
        {Stage::dq, {Stage::k, Stage::ds}},
        {Stage::dk, {Stage::q, Stage::ds}},
        {Stage::dv, {Stage::p, Stage::dout}},
    };
    const auto& table = direction == Direction::forward ? forward : backward;
    const auto row = std::ranges::find(table, stage, &Ancestry::stage);
    return row == table.end() ? std::vector<Stage>() : row->before;
}

/// Those that lead to the stage, `is_passed(stage)` being those that nothing behind is looked for.
template <class IsPassed>
std::vector<Stage> leading_to(Direction direction, Stage stage, const IsPassed& is_passed) {
    std::vector<Stage> stages = {stage};
    for (std::size_t i = 0; i < stages.size(); ++i) {
        for (const Stage parent : parents(direction, stages[i])) {
            if (!is_passed(parent) && std::ranges::find(stages, parent) == stages.end())
                stages.push_back(parent);
        }
    }
    std::ranges::sort(stages);
    return stages;
}

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

std::vector<Stage> stages_before(Direction direction, Stage stage) {
    std::vector<Stage> stages = leading_to(direction, stage, [](Stage) { return false; });
    std::erase(stages, stage);
    return stages;
}

std::vector<Stage> acting_stages(const Evidence& evidence) {
    std::vector<Stage> stages = leading_to(evidence.problem().direction, evidence.observed,
                                           [&](Stage stage) { return evidence.world->has(stage); });
    if (evidence.observed > Stage::s && lacks_tiles(evidence)) {
        stages.push_back(Stage::s);
        std::ranges::sort(stages);
    }
    return stages;
}

}  // namespace tilescope
