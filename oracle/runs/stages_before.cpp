#include "oracle/runs/stages_before.h"

#include <algorithm>

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

}  // namespace

std::vector<Stage> stages_leading_to(Direction direction, Stage stage,
                                     const std::function<bool(Stage)>& is_passed) {
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

std::vector<Stage> stages_before(Direction direction, Stage stage) {
    std::vector<Stage> stages = stages_leading_to(direction, stage, [](Stage) { return false; });
    std::erase(stages, stage);
    return stages;
}

}  // namespace tilescope
