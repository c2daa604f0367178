#include "oracle/program/grown_state.h"

#include <algorithm>
#include <array>
#include <vector>

#include "oracle/program/place_conditions.h"

namespace tilescope {

namespace {

/// Of what is not explained, that a condition has to tell apart.
constexpr double others_told_apart = 0.25;

bool grew_at(const ProgramCall& call, const ProgramArray& state, const StoredStage& stored,
             const AxisIndices& at) {
    std::int64_t address = 0;
    for (std::size_t i = 0; i < stored.axes.size(); ++i)
        address = address * stored.ranges[i].count + at[std::size_t(stored.axes[i])] - stored.ranges[i].first;
    const std::int64_t block = at[std::size_t(state.over)] / call.blocks[std::size_t(state.over)];
    const auto taken = std::size_t(call.block_in_order(state.over, state.backwards, block));
    return stored.states[taken + 1].value[std::size_t(address)] >
           stored.states[taken].value[std::size_t(address)];
}

}  // namespace

int state_condition(ProgramBuilder& build, int state, bool grew) {
    ProgramNode read{.op = ProgramOp::read, .what = state, .list = build.program().array(state).indices};
    read.state = ProgramState::after;
    const int after = build.add(read);
    read.state = ProgramState::before;
    read.says_state = true;
    return build.of_two(grew ? ProgramOp::more : ProgramOp::at_most, after, build.add(read));
}

std::optional<int> condition_of_states(Program& program, const SearchedCall& searched,
                                       const RewriteOutcome& outcome) {
    std::vector<int> axes = axes_of(program, searched.wrong());
    axes.push_back(program.array(searched.wrong()).over);
    const auto is_known = [&](int axis) { return std::ranges::find(axes, axis) != axes.end(); };
    for (const auto& [number, stored] : searched.known()) {
        const ProgramArray& state = program.array(number);
        if (number > searched.wrong() || state.over < 0 || !is_known(state.over) ||
            !std::ranges::all_of(stored.axes, is_known))
            continue;
        const auto counted = [&](const std::vector<const LookedElement*>& elements,
                                 std::array<std::int64_t, 2>& counts) {
            for (const LookedElement* const one : elements)
                ++counts[grew_at(searched.call(), state, stored, one->at) ? 1 : 0];
        };
        std::array<std::int64_t, 2> explained{};
        std::array<std::int64_t, 2> others{};
        counted(outcome.explained, explained);
        counted(outcome.broken, others);
        counted(outcome.right_open, others);
        for (const std::size_t grew : {1, 0}) {
            const bool is_it =
                double(explained[grew]) >= most_of_wrong * double(explained[0] + explained[1]) &&
                double(others[1 - grew]) >= others_told_apart * double(others[0] + others[1]);
            if (!is_it) continue;
            ProgramBuilder build(program);
            return state_condition(build, number, grew == 1);
        }
    }
    return std::nullopt;
}

}  // namespace tilescope
