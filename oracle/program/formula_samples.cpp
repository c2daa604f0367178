#include "oracle/program/formula_samples.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "oracle/program/build.h"

namespace tilescope {

namespace {

/// Places that are looked at of each part: so many that are wrong, and as many others; of a sum for each of its terms.
constexpr std::int64_t most_places = 1024;
/// Of a comparison of numbers as many more at each end of those that must hold, and of the others: these tell its bound.
constexpr std::size_t most_at_ends = 8;
constexpr std::int64_t sums_per_term = 4;
constexpr std::int64_t most_terms_of_sum = 512;
/// Sums whose factors are kept.
constexpr std::ptrdiff_t most_with_factors = 192;

bool is_wrong(const NeededValues& values, std::int64_t i) {
    const Uncertain needed = values.needed.at(i);
    const double right = values.right.value[std::size_t(i)];
    return !(needed.value == right || std::abs(needed.value - right) <= needed.error);
}

AxisIndices indices_at(const AxisRanges& ranges, const Numbers& numbers, std::int64_t i) {
    AxisIndices at{};
    for (std::size_t axis = 0; axis < at.size(); ++axis) at[axis] = std::int32_t(ranges[axis].first);
    for (std::size_t k = numbers.axes.size(); k > 0; --k) {
        at[std::size_t(numbers.axes[k - 1])] += std::int32_t(i % numbers.extents[k - 1]);
        i /= numbers.extents[k - 1];
    }
    return at;
}

}  // namespace

void FormulaSamples::take(const FormulaInputs& inputs, int stage, const AxisRanges& ranges,
                          std::int64_t block, const Numbers& stored) {
    const NeededObserver observer{[&](const NeededValues& values) { take_values(values, inputs.stages); },
                                  [&](const NeededSums& sums) { take_sums(sums); }};
    for_each_needed(inputs, stage, ranges, block, stored, observer);
}

FormulaSamples FormulaSamples::at(const std::function<bool(const AxisIndices&)>& is_inside,
                                  std::int64_t most) const {
    FormulaSamples some(call_);
    const auto keep = [&](auto& samples) {
        std::erase_if(samples, [&](const auto& sample) { return !is_inside(sample.at); });
        SpreadChoice every(std::ssize(samples), most);
        std::erase_if(samples, [&](const auto&) { return !every.takes(); });
    };
    for (auto [node, of] : nodes_) {
        keep(of.samples);
        of.wrong = std::ranges::count(of.samples, true, &NodeSample::is_wrong);
        of.right = std::ssize(of.samples) - of.wrong;
        some.nodes_.emplace(node, std::move(of));
    }
    for (auto [node, of] : sums_) {
        keep(of.samples);
        keep(of.empty);
        some.sums_.emplace(node, std::move(of));
    }
    return some;
}

std::vector<Numbers> FormulaSamples::indices_of(const NeededValues& values,
                                                const std::vector<const StoredStage*>& stages) const {
    const ProgramNode& node = program_.node(values.node);
    std::vector<int> numbers;
    const bool compares = is_comparison(node.op);
    if (node.op == ProgramOp::read) numbers = node.list;
    if (compares && program_.node(node.of[0]).is_whole && program_.node(node.of[1]).is_whole)
        numbers = {node.of[0], node.of[1]};
    Formulas formulas(call_, stages, values.stage, {});
    std::vector<Numbers> indices;
    for (const int number : numbers)
        indices.push_back(laid_out(formulas.at(number, values.ranges, values.block), values.needed.axes,
                                   values.needed.extents));
    return indices;
}

bool FormulaSamples::has_operand(int number, std::size_t operand) const {
    const ProgramNode& node = program_.node(number);
    const bool is_of_place = node.op == ProgramOp::plus || node.op == ProgramOp::minus ||
                             node.op == ProgramOp::times || node.op == ProgramOp::quotient ||
                             node.op == ProgramOp::smaller || node.op == ProgramOp::larger ||
                             is_comparison(node.op) || node.op == ProgramOp::call ||
                             (node.op == ProgramOp::chosen && operand != 1);
    return is_of_place && node.of[operand] >= 0 && !program_.node(node.of[operand]).is_whole;
}

std::array<Numbers, 3> FormulaSamples::operands_of(const NeededValues& values,
                                                   const std::vector<const StoredStage*>& stages) const {
    Formulas formulas(call_, stages, values.stage, {});
    std::array<Numbers, 3> operands;
    for (std::size_t k = 0; k < operands.size(); ++k) {
        if (has_operand(values.node, k))
            operands[k] = laid_out(formulas.at(program_.node(values.node).of[k], values.ranges, values.block),
                                   values.needed.axes, values.needed.extents);
    }
    return operands;
}

std::vector<Uncertain> FormulaSamples::numbers_at(const NodeSamples& of, int node) const {
    std::vector<Numbers> parts;
    for (const NodeSamples::Part& part : of.parts) {
        bool is_there = true;
        for_each_node(program_, node, [&](int each) {
            const ProgramNode& read = program_.node(each);
            if (read.op != ProgramOp::read || !program_.array(read.what).is_stage) return;
            const StoredStage* const stored = (*part.stages)[std::size_t(read.what)];
            is_there = is_there && stored != nullptr && !stored->states.empty();
        });
        if (!is_there) return {};
        std::vector<std::int64_t> extents;
        for (const int axis : of.axes) extents.push_back(part.ranges[std::size_t(axis)].count);
        Formulas formulas(call_, *part.stages, of.stage, {});
        parts.push_back(laid_out(formulas.at(node, part.ranges, part.block), of.axes, extents));
    }
    std::vector<Uncertain> numbers;
    for (const NodeSample& sample : of.samples) {
        std::int64_t address = 0;
        for (const int axis : of.axes) {
            const AxisRange& range = of.parts[sample.part].ranges[std::size_t(axis)];
            address = address * range.count + sample.at[std::size_t(axis)] - range.first;
        }
        numbers.push_back(parts[sample.part].at(address));
    }
    return numbers;
}

namespace {

/// Where two numbers that are compared differ least and most, of the places at which it must hold, and of the others.
std::vector<char> at_ends(const Numbers& needed, const std::array<Numbers, 3>& operands) {
    std::array<std::vector<std::pair<double, std::int64_t>>, 2> differences;
    for (std::int64_t i = 0; i < needed.size(); ++i) {
        const double difference = operands[0].at(i).value - operands[1].at(i).value;
        if (std::isfinite(needed.at(i).error) && !std::isnan(difference))
            differences[needed.at(i).value != 0 ? 1 : 0].emplace_back(difference, i);
    }
    std::vector<char> are_taken(std::size_t(needed.size()), 0);
    for (auto& of_side : differences) {
        const std::size_t count = std::min(most_at_ends, of_side.size());
        const auto some = of_side.begin() + std::ptrdiff_t(count);
        std::ranges::partial_sort(of_side, some);
        for (auto one = of_side.begin(); one != some; ++one) are_taken[std::size_t(one->second)] = 1;
        std::ranges::partial_sort(of_side, some, std::greater());
        for (auto one = of_side.begin(); one != some; ++one) are_taken[std::size_t(one->second)] = 1;
    }
    return are_taken;
}

}  // namespace

void FormulaSamples::take_values(const NeededValues& values, const std::vector<const StoredStage*>& stages) {
    const Numbers& needed = values.needed;
    NodeSamples& of = nodes_[values.node];
    if (of.parts.empty()) {
        of.stage = values.stage;
        of.node = values.node;
        of.axes = needed.axes;
        for (int axis = 0; axis < int(program_.axes.size()); ++axis) {
            const bool is_known = values.ranges[std::size_t(axis)].count > 0;
            if (is_known && program_.axes[std::size_t(axis)].block >= 0 && needed.position_of(axis) < 0)
                of.by_block.push_back(axis);
        }
    } else if (of.axes != needed.axes) {
        return;
    }
    std::array<std::int64_t, 2> counts{};
    for (std::int64_t i = 0; i < needed.size(); ++i) {
        if (std::isfinite(needed.at(i).error)) ++counts[is_wrong(values, i) ? 1 : 0];
    }
    std::array<SpreadChoice, 2> some{SpreadChoice(counts[0], most_places),
                                     SpreadChoice(counts[1], most_places)};
    const std::vector<Numbers> indices = indices_of(values, stages);
    const ProgramOp op = program_.node(values.node).op;
    const bool compares_numbers =
        is_comparison(op) && has_operand(values.node, 0) && has_operand(values.node, 1);
    const std::array<Numbers, 3> operands =
        counts[1] > 0 || compares_numbers ? operands_of(values, stages) : std::array<Numbers, 3>();
    const std::vector<char> are_taken = compares_numbers ? at_ends(needed, operands) : std::vector<char>();
    for (std::int64_t i = 0; i < needed.size(); ++i) {
        const Uncertain number = needed.at(i);
        if (!std::isfinite(number.error)) continue;
        NodeSample sample{.part = of.parts.size(),
                          .right = values.right.value[std::size_t(i)],
                          .needed = number.value,
                          .error = number.error,
                          .is_wrong = is_wrong(values, i)};
        const bool is_at_end = !are_taken.empty() && are_taken[std::size_t(i)] != 0;
        if (!some[sample.is_wrong ? 1 : 0].takes() && !is_at_end) continue;
        sample.at = indices_at(values.ranges, needed, i);
        for (std::size_t k = 0; k < operands.size(); ++k)
            sample.operands[k] = operands[k].value.empty() ? Uncertain{std::nan(""), 0} : operands[k].at(i);
        for (std::size_t k = 0; k < sample.index.size(); ++k) {
            if (k < indices.size()) sample.index[k] = std::int32_t(indices[k].value[std::size_t(i)]);
            if (indices.empty() && k < of.axes.size()) sample.index[k] = sample.at[std::size_t(of.axes[k])];
        }
        ++(sample.is_wrong ? of.wrong : of.right);
        of.samples.push_back(sample);
    }
    of.parts.push_back({&stages, values.ranges, values.block, is_read(of) ? Numbers() : values.right});
}

namespace {

/// The terms along the longest of the axes, of which those along the others are taken together.
struct MainAxis {
    MainAxis(const std::vector<int>& along, const AxisRanges& ranges) {
        const auto count = [&](int of) { return ranges[std::size_t(of)].count; };
        axis = *std::ranges::max_element(along, {}, count);
        for (auto other = along.rbegin(); *other != axis; ++other) step *= count(*other);
        extent = count(axis);
    }

    std::vector<double> of(ProgramOp op, std::span<const double> terms) const {
        const double none = op == ProgramOp::sum ? 0 : op == ProgramOp::most ? -HUGE_VAL : HUGE_VAL;
        std::vector<double> together(std::size_t(extent), none);
        for (std::size_t i = 0; i < terms.size(); ++i) {
            double& to = together[std::size_t(std::int64_t(i) / step % extent)];
            to = op == ProgramOp::sum    ? to + terms[i]
                 : op == ProgramOp::most ? std::max(to, terms[i])
                                         : std::min(to, terms[i]);
        }
        return together;
    }

    int axis = -1;
    std::int64_t step = 1;
    std::int64_t extent = 1;
};

/// How far apart neighbours along an axis are.
std::int64_t step_of(const Numbers& numbers, std::size_t position) {
    std::int64_t step = 1;
    for (std::size_t k = position + 1; k < numbers.extents.size(); ++k) step *= numbers.extents[k];
    return step;
}

/// The axis of the rows whose elements a sum adds, one after the other in memory; -1: it adds something else.
int row_axis_of(const Program& program, const NeededSums& taken, int along) {
    if (taken.factors.size() != 1) return -1;
    const ProgramNode* term = &program.node(taken.factors.front().node);
    // Of a lane, some of them.
    while (term->op == ProgramOp::chosen) term = &program.node(term->of[0]);
    const bool is_row = term->op == ProgramOp::read && !term->is_flat && term->list.size() >= 2 &&
                        program.axis_of(term->list.back()) == along;
    const int axis = is_row ? program.axis_of(term->list[term->list.size() - 2]) : -1;
    return axis >= 0 && program.axes[std::size_t(axis)].block >= 0 ? axis : -1;
}

}  // namespace

void FormulaSamples::take_sums(const NeededSums& taken) {
    const Numbers& needed = taken.needed;
    const std::int64_t terms = needed.size() > 0 ? taken.terms.size() / needed.size() : 0;
    const MainAxis main(taken.along, taken.ranges);
    if (main.extent < 2 || terms > most_terms_of_sum) return;
    SumSamples& of = sums_[taken.node];
    of.stage = taken.stage;
    of.node = taken.node;
    of.axis = main.axis;
    of.axes = needed.axes;
    of.row_axis = row_axis_of(program_, taken, main.axis);
    of.factors.clear();
    for (const SumFactor& factor : taken.factors) of.factors.push_back(factor.node);
    const ProgramOp op = program_.node(taken.node).op;
    const auto terms_of = [&](const Numbers& numbers, std::int64_t i) {
        const auto first = numbers.value.begin() + i * terms;
        return numbers.value.empty() ? std::vector<double>() : std::vector<double>(first, first + terms);
    };
    const int row = of.row_axis < 0 ? -1 : needed.position_of(of.row_axis);
    const std::int64_t step = row < 0 ? 0 : step_of(needed, std::size_t(row));
    const auto sample_at = [&](std::int64_t i) {
        SumSample sample{.at = indices_at(taken.ranges, needed, i),
                         .first = taken.ranges[std::size_t(main.axis)].first,
                         .terms = main.of(op, terms_of(taken.terms, i)),
                         .needed = needed.value[std::size_t(i)],
                         .error = std::max(needed.at(i).error, 1e-300)};
        if (row < 0) return sample;
        const std::int64_t extent = needed.extents[std::size_t(row)];
        const std::int64_t block = call_.blocks[std::size_t(of.row_axis)];
        const std::int64_t at = i / step % extent;
        const std::int64_t within = sample.at[std::size_t(of.row_axis)] % block;
        if (at > 0 && within > 0) sample.beside[0] = main.of(op, terms_of(taken.terms, i - step));
        if (at + 1 < extent && within + 1 < block)
            sample.beside[1] = main.of(op, terms_of(taken.terms, i + step));
        return sample;
    };
    const double none = op == ProgramOp::most ? -HUGE_VAL : HUGE_VAL;
    std::vector<std::int64_t> wrong;
    for (std::int64_t i = 0; i < needed.size(); ++i) {
        const std::vector<double> all = main.of(op, terms_of(taken.terms, i));
        const double right = op == ProgramOp::sum    ? std::accumulate(all.begin(), all.end(), 0.0)
                             : op == ProgramOp::most ? std::ranges::max(all)
                                                     : std::ranges::min(all);
        const Uncertain number = needed.at(i);
        if (!std::isfinite(number.error) || !std::isfinite(right)) continue;
        if (op != ProgramOp::sum && number.value == none && std::ssize(of.empty) < most_with_factors)
            of.empty.push_back(sample_at(i));
        if (!std::isfinite(number.value)) continue;
        if (!(std::abs(number.value - right) <= number.error))
            wrong.push_back(i);
        else if (op != ProgramOp::sum && std::ssize(of.right) < most_with_factors)
            of.right.push_back(sample_at(i));
    }
    SpreadChoice some(std::ssize(wrong), sums_per_term * terms);
    for (const std::int64_t i : wrong) {
        if (!some.takes() || std::ssize(of.samples) >= 4 * sums_per_term * terms) continue;
        of.samples.push_back(sample_at(i));
        if (std::ssize(of.samples) > most_with_factors) continue;
        for (const SumFactor& factor : taken.factors) {
            of.samples.back().factors.push_back(terms_of(factor.value, i));
            of.samples.back().uncast.push_back(terms_of(factor.uncast, i));
        }
    }
}

std::size_t FormulaSamples::dimensions(const NodeSamples& of) const {
    const std::size_t all = is_read(of) ? program_.node(of.node).list.size() : of.axes.size();
    return std::min(all, ElementIndices().size());
}

AxisRange FormulaSamples::range_of(const NodeSamples& of, std::size_t dimension, std::size_t part) const {
    if (!is_read(of)) return of.parts[part].ranges[std::size_t(of.axes[dimension])];
    const int array = program_.node(of.node).what;
    if (!program_.array(array).is_stage) {
        const ProgramInput& input = call_.inputs[std::size_t(array)];
        return {0, program_.node(of.node).is_flat ? size_of(input) : input.shape[dimension]};
    }
    const int axis = program_.axis_of(program_.array(array).indices[dimension]);
    const StoredStage& stored = *(*of.parts[part].stages)[std::size_t(array)];
    return stored.ranges[std::size_t(std::ranges::find(stored.axes, axis) - stored.axes.begin())];
}

double FormulaSamples::value_at(const NodeSamples& of, const NodeSample& sample,
                                const ElementIndices& index) const {
    std::int64_t address = 0;
    for (std::size_t k = 0; k < dimensions(of); ++k) {
        const AxisRange range = range_of(of, k, sample.part);
        if (index[k] < range.first || index[k] >= range.first + range.count) return std::nan("");
        address = address * range.count + index[k] - range.first;
    }
    if (!is_read(of)) return of.parts[sample.part].right.value[std::size_t(address)];
    const int array = program_.node(of.node).what;
    return program_.array(array).is_stage ? stored_value(of, sample, index)
                                          : element_of(call_.inputs[std::size_t(array)], address);
}

namespace {

/// Which of the states of an array is meant, by an index of the axis that it goes over.
std::size_t number_of_state(const ProgramCall& call, const ProgramArray& array, std::int64_t index,
                            ProgramState state) {
    const std::int64_t block = index / call.blocks[std::size_t(array.over)];
    const std::int64_t taken = call.block_in_order(array.over, array.backwards, block);
    return std::size_t(taken + (state == ProgramState::before ? 0 : 1));
}

}  // namespace

double FormulaSamples::state_at(const NodeSamples& of, const NodeSample& sample, int array,
                                ProgramState state) const {
    const ProgramArray& own = program_.array(array);
    const StoredStage* const stored = (*of.parts[sample.part].stages)[std::size_t(array)];
    if (stored == nullptr || own.over < 0) return std::nan("");
    std::int64_t address = 0;
    for (std::size_t i = 0; i < stored->axes.size(); ++i) {
        const AxisRange range = stored->ranges[i];
        const std::int64_t index = sample.at[std::size_t(stored->axes[i])];
        if (index < range.first || index >= range.first + range.count) return std::nan("");
        address = address * range.count + index - range.first;
    }
    return stored->states[number_of_state(call_, own, sample.at[std::size_t(own.over)], state)]
        .value[std::size_t(address)];
}

double FormulaSamples::stored_value(const NodeSamples& of, const NodeSample& sample,
                                    const ElementIndices& index) const {
    const ProgramNode& read = program_.node(of.node);
    const ProgramArray& array = program_.array(read.what);
    const StoredStage& stored = *(*of.parts[sample.part].stages)[std::size_t(read.what)];
    std::int64_t address = 0;
    for (std::size_t i = 0; i < stored.axes.size(); ++i) {
        std::size_t k = 0;
        while (program_.axis_of(array.indices[k]) != stored.axes[i]) ++k;
        address = address * stored.ranges[i].count + index[k] - stored.ranges[i].first;
    }
    std::size_t state = stored.states.size() - 1;
    if (read.state == ProgramState::before || read.state == ProgramState::after) {
        std::int64_t at = sample.at[std::size_t(array.over)];
        if (read.of[0] >= 0) {
            const auto first = sample.at.begin();
            const std::vector<std::int64_t> all(first, first + std::ptrdiff_t(program_.axes.size()));
            at = whole_at(call_, read.of[0], all).value_or(-1);
        }
        if (at < 0 || at >= call_.extents[std::size_t(array.over)]) return std::nan("");
        state = number_of_state(call_, array, at, read.state);
    }
    return stored.states[state].value[std::size_t(address)];
}

}  // namespace tilescope
