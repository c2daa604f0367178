// What formulas read: elements of inputs and of stages.

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "oracle/program/element_operations.h"
#include "oracle/program/formulas.h"

namespace tilescope {

namespace {

/// What stands beyond an array, or was not computed yet: no number, of which nothing is known.
constexpr Uncertain beyond{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * shape[i - 1];
    return strides;
}

/// Adds stride times index to the addresses; -1 where an index lies outside.
void add_index(const Numbers& index, std::int64_t first, std::int64_t extent, std::int64_t stride,
               Numbers& addresses) {
    addresses = combined<2>({&addresses, &index}, true, [&](const std::array<Uncertain, 2>& of) -> Uncertain {
        const double at = of[1].value - double(first);
        const bool is_inside = of[0].value >= 0 && at >= 0 && at < double(extent);
        return {is_inside ? of[0].value + at * double(stride) : -1, 0};
    });
}

}  // namespace

/// An input at indices that are axes and nothing else; nullopt: they are not, or leave it.
std::optional<Numbers> Formulas::read_straight(const ProgramNode& node, const AxisRanges& ranges) const {
    const ProgramInput& input = call_.inputs[std::size_t(node.what)];
    const std::vector<std::int64_t> strides = strides_of(input.shape);
    if (node.is_flat) return std::nullopt;
    Numbers there = {.axes = {}, .extents = {}};
    std::int64_t first = 0;
    for (std::size_t i = 0; i < node.list.size(); ++i) {
        const int axis = call_.program.axis_of(node.list[i]);
        if (axis < 0 || there.position_of(axis) >= 0) return std::nullopt;
        const AxisRange& range = ranges[std::size_t(axis)];
        if (range.first + range.count > input.shape[i]) return std::nullopt;
        first += range.first * strides[i];
        there.axes.push_back(axis);
        there.extents.push_back(range.count);
    }
    Numbers result = Numbers::room(there.axes, there.extents);
    const Walk walk(result.axes, result.extents);
    PerAxis steps;
    for (std::size_t i = 0; i < node.list.size(); ++i) steps.push_back(strides[i]);
    walk.rows(std::array{steps}, [&](const Row<1>& row) {
        if (row.step[0] == 1)
            return decode(input, first + row.from[0], row.length, result.value.data() + row.to);
        for (std::int64_t i = 0; i < row.length; ++i)
            result.value[std::size_t(row.to + i)] = element_of(input, first + row.from[0] + i * row.step[0]);
    });
    std::vector<int> rising = result.axes;
    std::ranges::sort(rising);
    std::vector<std::int64_t> extents;
    for (const int axis : rising) extents.push_back(result.extents[std::size_t(result.position_of(axis))]);
    return laid_out(std::move(result), rising, extents);
}

/// A stage at indices that are axes and nothing else, in one of its states; nullopt: they are not, or leave it.
std::optional<Numbers> Formulas::stage_straight(const ProgramNode& node, const AxisRanges& ranges) const {
    const Program& program = call_.program;
    const ProgramArray& array = program.array(node.what);
    const StoredStage& stage = *stored_[std::size_t(node.what)];
    std::map<int, std::pair<std::int64_t, std::int64_t>> axes;  // extent, and step in the stage
    std::int64_t first = 0;
    for (std::size_t i = 0; i < node.list.size(); ++i) {
        const int axis = program.axis_of(node.list[i]);
        if (axis < 0 || axes.contains(axis)) return std::nullopt;
        const auto at = std::size_t(std::ranges::find(stage.axes, program.axis_of(array.indices[i])) -
                                    stage.axes.begin());
        std::int64_t step = 1;
        for (std::size_t k = at + 1; k < stage.ranges.size(); ++k) step *= stage.ranges[k].count;
        const AxisRange& range = ranges[std::size_t(axis)];
        const std::int64_t offset = range.first - stage.ranges[at].first;
        if (offset < 0 || offset + range.count > stage.ranges[at].count) return std::nullopt;
        first += offset * step;
        axes[axis] = {range.count, step};
    }
    std::int64_t state = std::int64_t(stage.states.size()) - 1;
    if (node.state == ProgramState::before || node.state == ProgramState::after) {
        const Numbers number = number_of_state(node, ranges);
        if (number.size() != 1 || number.value[0] < 0 || number.value[0] > double(state)) return std::nullopt;
        state = std::int64_t(number.value[0]);
        for (const int axis : number.axes) axes.try_emplace(axis, 1, 0);
    }
    const Numbers& there = stage.states[std::size_t(state)];
    if (there.value.empty()) return std::nullopt;
    std::vector<int> rising;
    std::vector<std::int64_t> extents;
    PerAxis steps;
    for (const auto& [axis, of] : axes) {
        rising.push_back(axis);
        extents.push_back(of.first);
        steps.push_back(of.second);
    }
    return part_of(there, first, std::move(rising), std::move(extents), steps);
}

Numbers Formulas::read(const ProgramNode& node, const AxisRanges& ranges) const {
    const ProgramArray& array = call_.program.array(node.what);
    if (!array.is_stage) {
        if (std::optional<Numbers> straight = read_straight(node, ranges)) return *std::move(straight);
    }
    Numbers addresses = Numbers::of(0);
    const auto add = [&](const Numbers& index, std::int64_t first, std::int64_t extent, std::int64_t stride) {
        add_index(index, first, extent, stride, addresses);
    };
    if (!array.is_stage) {
        const ProgramInput& input = call_.inputs[std::size_t(node.what)];
        const std::vector<std::int64_t> shape =
            node.is_flat ? std::vector<std::int64_t>{size_of(input)} : input.shape;
        const std::vector<std::int64_t> strides = strides_of(shape);
        for (std::size_t i = 0; i < node.list.size(); ++i)
            add(value(node.list[i], ranges), 0, shape[i], strides[i]);
        const bool are_inside = std::ranges::none_of(addresses.value, [](double at) { return at < 0; });
        return combined<1>({&addresses}, are_inside, [&](const auto& of) -> Uncertain {
            return of[0].value < 0 ? beyond : Uncertain{element_of(input, std::int64_t(of[0].value)), 0};
        });
    }
    if (std::optional<Numbers> straight = stage_straight(node, ranges)) return *std::move(straight);
    const StoredStage& stage = *stored_[std::size_t(node.what)];
    std::vector<std::int64_t> shape;
    for (const AxisRange& range : stage.ranges) shape.push_back(range.count);
    const std::vector<std::int64_t> strides = strides_of(shape);
    for (std::size_t i = 0; i < node.list.size(); ++i) {
        const int axis = call_.program.axis_of(array.indices[i]);
        const auto at = std::size_t(std::ranges::find(stage.axes, axis) - stage.axes.begin());
        add(value(node.list[i], ranges), stage.ranges[at].first, shape[at], strides[at]);
    }
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    std::int64_t state = std::int64_t(stage.states.size()) - 1;
    if (node.state == ProgramState::before || node.state == ProgramState::after) {
        add(number_of_state(node, ranges), 0, std::int64_t(stage.states.size()), size);
        state = 0;
    }
    return combined<1>({&addresses}, false, [&](const auto& of) -> Uncertain {
        if (of[0].value < 0) return beyond;
        const auto address = std::int64_t(of[0].value);
        const Numbers& there = stage.states[std::size_t(state + address / size)];
        return there.value.empty() ? beyond : there.at(address % size);
    });
}

/// How many blocks have been taken before the state of a read, for each index of the axis, or for the index that stands there.
Numbers Formulas::number_of_state(const ProgramNode& node, const AxisRanges& ranges) const {
    const ProgramArray& array = call_.program.array(node.what);
    const auto axis = std::size_t(array.over);
    const std::int64_t after = node.state == ProgramState::after ? 1 : 0;
    Numbers indices;
    if (node.of[0] >= 0) {
        indices = value(node.of[0], ranges);
    } else {
        indices = Numbers::along({array.over}, {ranges[axis].count});
        for (std::int64_t i = 0; i < indices.size(); ++i)
            indices.value[std::size_t(i)] = double(ranges[axis].first + i);
    }
    return combined<1>({&indices}, true, [&](const auto& of) -> Uncertain {
        if (!(of[0].value >= 0 && of[0].value < double(call_.extents[axis]))) return {-1, 0};
        const std::int64_t block = std::int64_t(of[0].value) / call_.blocks[axis];
        return {double(call_.block_in_order(array.over, array.backwards, block) + after), 0};
    });
}

}  // namespace tilescope
