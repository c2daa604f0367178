#include "oracle/program/tile_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/program/element_operations.h"

namespace tilescope {

namespace {

/// Elements of a stage that stay near the processor while others are computed from them.
constexpr double elements_nearby = 1 << 13;

/// Along all axes of a stage, with errors.
Numbers whole(Numbers numbers, const std::vector<int>& axes, const std::vector<std::int64_t>& extents) {
    Numbers all = laid_out(std::move(numbers), axes, extents);
    all.error.resize(all.value.size());
    return all;
}

/// Nothing is known of what nobody has computed yet.
void fill_empty(Numbers& state) {
    if (!state.value.empty()) return;
    state = Numbers::along(state.axes, state.extents);
    std::ranges::fill(state.value, std::numeric_limits<double>::quiet_NaN());
    state.error.assign(state.value.size(), std::numeric_limits<double>::infinity());
}

/// A stage that nobody has computed yet.
StoredStage empty_stage(const ProgramCall& call, int number, const AxisRanges& outer) {
    const ProgramArray& array = call.program.array(number);
    StoredStage stage;
    for (const int index : array.indices) stage.axes.push_back(call.program.axis_of(index));
    std::ranges::sort(stage.axes);
    std::vector<std::int64_t> extents;
    for (const int axis : stage.axes) {
        stage.ranges.push_back(outer[std::size_t(axis)]);
        extents.push_back(outer[std::size_t(axis)].count);
    }
    stage.states.assign(array.over < 0 ? 1 : std::size_t(call.blocks_of(array.over)) + 1,
                        {.axes = stage.axes, .extents = extents});
    return stage;
}

/// Some indices of a state of a stage.
void keep_part(const Numbers& part, const AxisRanges& ranges, const StoredStage& stage, Numbers& kept) {
    fill_empty(kept);
    const PerAxis steps = Walk(part.axes, part.extents).steps_of(kept);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < stage.axes.size(); ++i)
        first += (ranges[std::size_t(stage.axes[i])].first - stage.ranges[i].first) * steps[i];
    put_part(part, first, steps, kept);
}

/// Whether a formula reads a stage.
bool is_read(const Program& program, int stage) {
    return std::ranges::any_of(program.arrays, [&](const ProgramArray& array) {
        return array.is_stage && (reads(program, array.value, stage) || reads(program, array.start, stage));
    });
}

/// Whether a formula reads a state in another way than that before or after the block where it is carried, or the last one behind.
bool reads_other_states(const Program& program, int reader, int number, int state) {
    if (number < 0) return false;
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::read && node.what == state) {
        const bool is_in_loop = program.loop_of(reader) == program.loop_of(state);
        if (node.of[0] >= 0 || is_in_loop == (node.state == ProgramState::last)) return true;
    }
    return std::ranges::any_of(
        node.of, [&](int operand) { return reads_other_states(program, reader, operand, state); });
}

/// A tile in the order of the stage's own indices, and these axes.
struct OwnOrder {
    ProgramTile tile;
    std::vector<int> axes;
    std::vector<std::int64_t> extents;
};

/// Whether a formula of a state takes that after the block, as of a row that was updated before.
bool takes_own_result(const Program& program, int stage, int number) {
    if (number < 0) return false;
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::read && node.what == stage && node.state == ProgramState::after) return true;
    return std::ranges::any_of(node.of,
                               [&](int operand) { return takes_own_result(program, stage, operand); });
}

OwnOrder own_order(const Program& program, int number, const AxisRanges& ranges, std::int64_t block) {
    OwnOrder order;
    order.tile = {.stage = number, .indices = {}, .block = block};
    for (const int index : program.array(number).indices) {
        order.axes.push_back(program.axis_of(index));
        order.tile.indices.push_back(ranges[std::size_t(order.axes.back())]);
        order.extents.push_back(order.tile.indices.back().count);
    }
    return order;
}

}  // namespace

bool keeps_states(const Program& program, int state) {
    for (int reader = 0; reader < int(program.arrays.size()); ++reader) {
        const ProgramArray& array = program.array(reader);
        if (array.is_stage && (reads_other_states(program, reader, array.value, state) ||
                               reads_other_states(program, reader, array.start, state)))
            return true;
    }
    return false;
}

TileRun::TileRun(const ProgramCall& call, const ProgramOptions& options, const AxisRanges& outer,
                 const ObserveTile& observe)
    : call_(call),
      program_(call.program),
      options_(options),
      outer_(outer),
      observe_(observe),
      own_(program_.arrays.size()),
      known_(program_.arrays.size()),
      view_(program_.arrays.size()) {}

void TileRun::run(std::span<const int> stages) {
    for (std::size_t first = 0; first < stages.size();) {
        const ProgramLoop& loop = program_.loops[std::size_t(program_.loop_of(stages[first]))];
        std::size_t end = first;
        while (end < stages.size() && stages[end] < loop.end) ++end;
        const std::span<const int> together = stages.subspan(first, end - first);
        for (const int stage : together) prepare(stage);
        // Where all states are known there is nothing to carry.
        const bool carries = std::ranges::any_of(together, [&](int stage) {
            return known_[std::size_t(stage)] == nullptr && program_.array(stage).over >= 0;
        });
        if (carries && forgets_)
            run_nearby(together, loop);
        else
            run_loop(together, loop, carries);
        first = end;
    }
}

/// Stages that take no state of the loop are computed before it, for all of its blocks at once.
void TileRun::run_nearby(std::span<const int> together, const ProgramLoop& loop) {
    std::vector<int> before;
    std::vector<int> carried;
    for (const int stage : together) {
        const ProgramArray& array = program_.array(stage);
        const bool takes_state = std::ranges::any_of(together, [&](int other) {
            const bool is_before = std::ranges::find(before, other) != before.end();
            return !is_before && known_[std::size_t(other)] == nullptr && reads(program_, array.value, other);
        });
        (array.over >= 0 || takes_state ? carried : before).push_back(stage);
    }
    const ProgramLoop once{-1, false, loop.first, loop.end};
    if (!before.empty() && !run_in_parts(before, once)) run_loop(before, once, false);
    if (!run_in_parts(carried, loop)) run_loop(carried, loop, true);
}

void TileRun::run_loop(std::span<const int> together, const ProgramLoop& loop, bool carries) {
    const int axis = carries ? loop.axis : -1;
    const std::int64_t blocks = carries ? call_.blocks_of(axis) : 1;
    for (std::int64_t taken = 0; taken < blocks; ++taken) {
        const std::int64_t block = carries ? call_.block_in_order(axis, loop.backwards, taken) : 0;
        for (const int stage : together) {
            if (known_[std::size_t(stage)] != nullptr) continue;
            run_stage(stage, axis, block);
            // What is before the block is read until the next one.
            if (carries && taken > 0) forget(stage, taken - 1);
        }
    }
    for (const int stage : together)
        if (carries) forget(stage, blocks - 1);
}

/// A state that nobody reads any more.
void TileRun::forget(int number, std::int64_t state) {
    if (!forgets_ || program_.array(number).over < 0 || keeps_states(program_, number)) return;
    Numbers& of = own_[std::size_t(number)].states[std::size_t(state)];
    of.value.forget();
    of.error.forget();
}

/// Goes through the blocks for some indices after the other, as many as stay near the processor. False: it is small enough as it is.
bool TileRun::run_in_parts(std::span<const int> together, const ProgramLoop& loop) {
    const std::vector<int> axes = independent_axes(program_, together);
    double size = 1;
    for (const int stage : together) {
        double of_stage = 1;
        for (const int index : program_.array(stage).indices) {
            const int axis = program_.axis_of(index);
            if (std::ranges::find(axes, axis) != axes.end()) continue;
            of_stage *=
                double(axis == loop.axis ? call_.blocks[std::size_t(axis)] : outer_[std::size_t(axis)].count);
        }
        size = std::max(size, of_stage);
    }
    AxisRanges ranges = outer_;
    std::int64_t count = 1;
    for (std::size_t i = axes.size(); i > 0; --i) {
        AxisRange& range = ranges[std::size_t(axes[i - 1])];
        const std::int64_t whole_count = range.count;
        range.count = std::clamp(std::int64_t(elements_nearby / size), std::int64_t(1), whole_count);
        size *= double(range.count);
        count *= (whole_count + range.count - 1) / range.count;
    }
    if (count == 1) return false;
    const AxisRanges first = ranges;
    for (std::int64_t number = 0; number < count; ++number) {
        std::int64_t rest = number;
        for (std::size_t i = axes.size(); i > 0; --i) {
            const auto axis = std::size_t(axes[i - 1]);
            const std::int64_t step = first[axis].count;
            const std::int64_t parts = (outer_[axis].count + step - 1) / step;
            const std::int64_t begin = rest % parts * step;
            rest /= parts;
            ranges[axis] = {outer_[axis].first + begin, std::min(step, outer_[axis].count - begin)};
        }
        run_part(together, loop, ranges);
    }
    return true;
}

void TileRun::run_part(std::span<const int> together, const ProgramLoop& loop, const AxisRanges& ranges) {
    TileRun part(call_, options_, ranges, observe_);
    part.forgets_ = true;
    for (std::size_t i = 0; i < view_.size(); ++i) {
        const bool is_computed =
            std::ranges::find(together, int(i)) != together.end() && known_[i] == nullptr;
        if (view_[i] != nullptr && !is_computed) part.know(int(i), *view_[i]);
    }
    for (const int stage : together) part.prepare(stage);
    part.run_loop(together, loop, loop.axis >= 0);
    for (const int stage : together) {
        if (known_[std::size_t(stage)] != nullptr) continue;
        const std::vector<Numbers>& states = part.own_[std::size_t(stage)].states;
        StoredStage& all = own_[std::size_t(stage)];
        for (std::size_t i = 0; i < states.size(); ++i)
            if (!states[i].value.empty()) keep_part(states[i], ranges, all, all.states[i]);
    }
}

void TileRun::prepare(int number) {
    if (known_[std::size_t(number)] != nullptr) return;
    StoredStage& stage = own_[std::size_t(number)] = empty_stage(call_, number, outer_);
    const StoredStage*& read = view_[std::size_t(number)];
    if (read != nullptr) return;
    read = &stage;
    const ProgramArray& array = program_.array(number);
    if (array.over < 0) return;
    AxisRanges ranges{};
    for (std::size_t i = 0; i < stage.axes.size(); ++i) ranges[std::size_t(stage.axes[i])] = stage.ranges[i];
    stage.states.front() =
        whole(Formulas(call_, view_, number, model_of(number), watch_).at(array.start, ranges, 0), stage.axes,
              stage.states.front().extents);
}

SumModel TileRun::model_of(int number) const {
    double elements = 1;
    double stages = 0;
    for (const ProgramArray& array : program_.arrays) stages += array.is_stage ? 1 : 0;
    const ProgramArray& array = program_.array(number);
    for (const int index : array.indices)
        elements *= double(call_.extents[std::size_t(program_.axis_of(index))]);
    if (array.over >= 0) elements *= double(call_.blocks_of(array.over));
    const double failure = (1 - options_.confidence) / (stages * elements);
    return {options_.tensor_core, failure > 0 ? std::sqrt(2 * std::log(2 / failure)) : 0};
}

/// In the type of the stage.
void TileRun::store(int number, const AxisRanges& ranges, std::int64_t block, Numbers& numbers) const {
    const Dtype dtype = program_.array(number).dtype;
    const bool rounds = watch_ == nullptr || watch_->rounds(store_of(number));
    if (dtype != Dtype::f32 && rounds) numbers = cast_of(dtype, numbers);
    if (watch_ != nullptr) watch_->pass(store_of(number), ranges, block, numbers);
}

void TileRun::run_stage(int number, int loop_axis, std::int64_t block) {
    const ProgramArray& array = program_.array(number);
    StoredStage& stage = own_[std::size_t(number)];
    AxisRanges ranges{};
    std::vector<std::int64_t> extents;
    for (std::size_t i = 0; i < stage.axes.size(); ++i) {
        AxisRange& range = ranges[std::size_t(stage.axes[i])];
        range = stage.axes[i] == loop_axis ? block_range(loop_axis, block) : stage.ranges[i];
        extents.push_back(range.count);
    }
    if (array.over >= 0) ranges[std::size_t(array.over)] = {block * call_.blocks[std::size_t(array.over)], 1};
    const std::int64_t taken = array.over < 0 ? -1 : call_.block_in_order(array.over, array.backwards, block);
    if (array.over >= 0 && takes_own_result(program_, number, array.value))
        show_stored(number, ranges, block, stage.states[std::size_t(taken + 1)]);
    Numbers numbers = whole(
        Formulas(call_, view_, number, model_of(number), watch_, memory_).at(array.value, ranges, block),
        stage.axes, extents);
    store(number, ranges, array.over < 0 ? -1 : block, numbers);
    settle(number, ranges, array.over < 0 ? -1 : block, numbers);
    Numbers& kept = stage.states[std::size_t(taken + 1)];
    if (loop_axis >= 0 && array.over < 0)
        keep_part(numbers, ranges, stage, kept);
    else
        kept = std::move(numbers);
}

AxisRange TileRun::block_range(int axis, std::int64_t block) const {
    const std::int64_t size = call_.blocks[std::size_t(axis)];
    return {block * size, std::min(size, call_.extents[std::size_t(axis)] - block * size)};
}

/// Whether anything of it was stored.
bool TileRun::take_stored(const ProgramTile& tile, Numbers& got) const {
    if (options_.stored == nullptr || !options_.stored->has(tile.stage)) return false;
    std::vector<char> known(got.value.size(), 0);
    Reals stored(got.value.size());
    options_.stored->read(tile, stored, known);
    for (std::size_t i = 0; i < known.size(); ++i) {
        if (known[i] == 0) continue;
        got.value[i] = stored[i];
        got.error[i] = 0;
    }
    return true;
}

/// What other rows of a state hold already, after the block: as it was stored, and nothing is known of the rest.
void TileRun::show_stored(int number, const AxisRanges& ranges, std::int64_t block, Numbers& state) const {
    const OwnOrder order = own_order(program_, number, ranges, block);
    fill_empty(state);
    Numbers got = laid_out(state, order.axes, order.extents);
    if (take_stored(order.tile, got))
        state = whole(laid_out(got, state.axes, state.extents), state.axes, state.extents);
}

/// Shows what is expected, and goes on from what the kernel stored.
void TileRun::settle(int number, const AxisRanges& ranges, std::int64_t block, Numbers& numbers) const {
    if (options_.shown != nullptr && !options_.shown->has(number)) return;
    const OwnOrder order = own_order(program_, number, ranges, block);
    Numbers got = laid_out(numbers, order.axes, order.extents);
    if (forgets_ && !is_read(program_, number))
        return observe_(order.tile, {std::move(got.value), std::move(got.error)});
    observe_(order.tile, {got.value, got.error});
    if (take_stored(order.tile, got))
        numbers =
            whole(laid_out(std::move(got), numbers.axes, numbers.extents), numbers.axes, numbers.extents);
}

void start_anew(const ProgramCall& call, int number, StoredStage& stage) {
    const std::vector<const StoredStage*> none(call.program.arrays.size());
    AxisRanges ranges{};
    for (std::size_t i = 0; i < stage.axes.size(); ++i) ranges[std::size_t(stage.axes[i])] = stage.ranges[i];
    Numbers& start = stage.states.front();
    start = whole(Formulas(call, none, number, {}).at(call.program.array(number).start, ranges, 0),
                  start.axes, start.extents);
}

namespace {

/// A stage as it was stored, and which elements of it that are: one vector for each state.
struct KnownStage {
    StoredStage stage;
    std::vector<std::vector<char>> known;
    bool is_whole = true;
};

KnownStage known_stage(const ProgramCall& call, const ProgramOptions& options, int number) {
    AxisRanges all{};
    for (std::size_t axis = 0; axis < call.extents.size(); ++axis) all[axis] = {0, call.extents[axis]};
    KnownStage result{empty_stage(call, number, all), {}, true};
    StoredStage& stage = result.stage;
    const ProgramArray& array = call.program.array(number);
    const bool is_state = array.over >= 0;
    result.known.resize(stage.states.size());
    for (std::size_t i = is_state ? 1 : 0; i < stage.states.size(); ++i) {
        const std::int64_t block =
            is_state ? call.block_in_order(array.over, array.backwards, std::int64_t(i) - 1) : -1;
        const OwnOrder order = own_order(call.program, number, all, block);
        Numbers got = Numbers::along(order.axes, order.extents);
        std::ranges::fill(got.value, std::numeric_limits<double>::quiet_NaN());
        std::vector<char> known(got.value.size(), 0);
        options.stored->read(order.tile, got.value, known);
        result.is_whole = result.is_whole && std::ranges::find(known, char(0)) == known.end();
        Numbers& state = stage.states[i];
        state = whole(std::move(got), state.axes, state.extents);
        Numbers marks = Numbers::along(order.axes, order.extents);
        std::ranges::copy(known, marks.value.begin());
        marks = laid_out(marks, state.axes, state.extents);
        result.known[i].assign(marks.value.begin(), marks.value.end());
    }
    if (is_state) start_anew(call, number, stage);
    return result;
}

void fill_unknown(const ProgramTile& tile, const ExpectedTile& expected, const ProgramCall& call,
                  KnownStage& of) {
    StoredStage& stage = of.stage;
    const ProgramArray& array = call.program.array(tile.stage);
    const std::int64_t taken =
        array.over < 0 ? -1 : call.block_in_order(array.over, array.backwards, tile.block);
    const auto state = std::size_t(taken + 1);
    const std::vector<int>& indices = array.indices;
    for (std::int64_t i = 0; i < tile.size(); ++i) {
        const std::vector<std::int64_t> index = tile.index_of(i);
        std::int64_t address = 0;
        for (std::size_t k = 0; k < stage.axes.size(); ++k) {
            std::size_t at = 0;
            while (call.program.axis_of(indices[at]) != stage.axes[k]) ++at;
            address = address * stage.ranges[k].count + index[at];
        }
        if (of.known[state][std::size_t(address)] != 0) continue;
        stage.states[state].value[std::size_t(address)] = expected.value[std::size_t(i)];
        stage.states[state].error[std::size_t(address)] = expected.error[std::size_t(i)];
    }
}

}  // namespace

std::map<int, StoredStage> stored_stages(const ProgramCall& call, const ProgramOptions& options,
                                         std::span<const int> stages) {
    std::map<int, KnownStage> found;
    for (const int stage : stages) found.emplace(stage, known_stage(call, options, stage));
    if (std::ranges::any_of(found, [](const auto& of) { return !of.second.is_whole; }))
        evaluate_program(call, options, [&](const ProgramTile& tile, const ExpectedTile& expected) {
            const auto of = found.find(tile.stage);
            if (of != found.end() && !of->second.is_whole) fill_unknown(tile, expected, call, of->second);
        });
    std::map<int, StoredStage> whole;
    for (auto& [number, of] : found) whole.emplace(number, std::move(of.stage));
    return whole;
}

}  // namespace tilescope
