#include "oracle/program/formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>

#include "oracle/formula/budget.h"
#include "oracle/program/element_operations.h"
#include "oracle/program/functions.h"

namespace tilescope {

namespace {

constexpr double not_known = std::numeric_limits<double>::infinity();

double whole_of_two(ProgramOp op, double x, double y) {
    switch (op) {
        case ProgramOp::plus:
            return x + y;
        case ProgramOp::minus:
            return x - y;
        case ProgramOp::times:
            return x * y;
        case ProgramOp::quotient:
            return y == 0 ? 0 : std::trunc(x / y);
        case ProgramOp::rest:
            return y == 0 ? 0 : std::fmod(x, y);
        case ProgramOp::exclusive:
            return x < 0 || y < 0 ? -1 : double(std::int64_t(x) ^ std::int64_t(y));
        case ProgramOp::masked:
            return x < 0 || y < 0 ? -1 : double(std::int64_t(x) & std::int64_t(y));
        case ProgramOp::smaller:
            return std::min(x, y);
        default:
            return std::max(x, y);
    }
}

/// 1 or 0, and an error of 1 where what the numbers may be off by leaves that open. Of NaN it is NaN: x > 0 and not x <= 0 are different
/// guards then, and kernels have either.
Uncertain compared(ProgramOp op, Uncertain x, Uncertain y) {
    if (std::isnan(x.value) || std::isnan(y.value)) return {std::nan(""), std::max(x.error, y.error)};
    const double off = x.error + y.error;
    const bool is_open = off > 0 && std::abs(x.value - y.value) <= off;
    return {holds(op, x.value, y.value) ? 1.0 : 0.0, is_open ? 1.0 : 0.0};
}

/// Of two conditions; `decides`: the one that alone tells what both are together.
Uncertain joined(double decides, Uncertain x, Uncertain y) {
    for (const Uncertain& one : {x, y}) {
        if (one.value == decides && one.error == 0) return {decides, 0};
    }
    const bool is_decided = x.value == decides || y.value == decides;
    if (std::isnan(x.value) || std::isnan(y.value)) return {std::nan(""), std::max(x.error, y.error)};
    return {is_decided ? decides : 1 - decides, std::max(x.error, y.error)};
}

Uncertain chosen(Uncertain x, Uncertain condition, Uncertain otherwise) {
    if (std::isnan(condition.value)) return {condition.value, std::isinf(condition.error) ? not_known : 0};
    const bool is_first = condition.value != 0;
    Uncertain taken = is_first ? x : otherwise;
    if (condition.error == 0) return taken;
    const double apart = std::abs(x.value - otherwise.value);
    taken.error = std::isfinite(apart) ? apart + std::max(x.error, otherwise.error) : not_known;
    return taken;
}

/// Any number from the one to the other.
Uncertain between(Uncertain x, Uncertain y) {
    if (x.value == y.value) return {x.value, std::max(x.error, y.error)};
    const double middle = 0.5 * x.value + 0.5 * y.value;
    if (!std::isfinite(middle)) return {middle, not_known};
    const double half = 0.5 * std::abs(x.value - y.value);
    return {middle, half + std::max(x.error, y.error) + u_oracle * (std::abs(middle) + half)};
}

Uncertain real_of_two(ProgramOp op, Uncertain x, Uncertain y) {
    switch (op) {
        case ProgramOp::quotient:
            return in_range(quotient_of(x, y));
        case ProgramOp::smaller:
            return negative(larger(negative(x), negative(y)));
        case ProgramOp::between:
            return between(x, y);
        case ProgramOp::exclusive:
        case ProgramOp::masked:
            return with_other_bits(op, x, std::uint32_t(y.value));
        default:
            return larger(x, y);
    }
}

Numbers chosen_of_each(const Numbers& x, const Numbers& condition, const Numbers& otherwise) {
    return combined<3>(
        {&x, &condition, &otherwise}, x.is_exact() && condition.is_exact() && otherwise.is_exact(),
        [](const auto& of, std::int64_t count, ElementResult to) {
            return element_kernels().chosen(of[0], of[1], of[2], count, to);
        },
        [](const auto& of) { return chosen(of[0], of[1], of[2]); });
}

/// The first and last index along each axis where an exact condition holds; nullopt: somewhere it is no number, or it goes along other
/// indices than these.
std::optional<AxisRanges> where_it_holds(const Numbers& condition, const AxisRanges& ranges) {
    const std::size_t dims = condition.axes.size();
    std::vector<std::int64_t> least = condition.extents;
    std::vector<std::int64_t> most(dims, -1);
    for (std::size_t k = 0; k < dims; ++k)
        if (condition.extents[k] != ranges[std::size_t(condition.axes[k])].count) return std::nullopt;
    for (std::int64_t i = 0; i < condition.size(); ++i) {
        const double holds = condition.value[std::size_t(i)];
        if (std::isnan(holds)) return std::nullopt;
        if (holds == 0) continue;
        std::int64_t rest = i;
        for (std::size_t k = dims; k > 0; --k) {
            const std::int64_t at = rest % condition.extents[k - 1];
            rest /= condition.extents[k - 1];
            least[k - 1] = std::min(least[k - 1], at);
            most[k - 1] = std::max(most[k - 1], at);
        }
    }
    AxisRanges there = ranges;
    for (std::size_t k = 0; k < dims; ++k) {
        if (most[k] < 0) return std::nullopt;
        AxisRange& range = there[std::size_t(condition.axes[k])];
        range = {range.first + least[k], most[k] - least[k] + 1};
    }
    return there;
}

Numbers sum_of_two(const Numbers& x, const Numbers& y) {
    return combined<2>(
        {&x, &y}, false,
        [](const auto& of, std::int64_t count, ElementResult to) {
            return element_kernels().added(of[0], of[1], count, to);
        },
        [](const auto& of) { return in_range(added(of[0], of[1])); });
}

}  // namespace

Numbers Formulas::value(int number, const AxisRanges& ranges) const {
    if (!memory_.holds(number)) return watched(number, ranges, computed(number, ranges));
    if (const Numbers* known = memory_.numbers->find(stage_, number, ranges, block_)) return *known;
    Numbers numbers = computed(number, ranges);
    memory_.numbers->keep(stage_, number, ranges, block_, numbers);
    return numbers;
}

Numbers Formulas::watched(int number, const AxisRanges& ranges, Numbers numbers) const {
    if (watch_ != nullptr) watch_->pass(number, ranges, 0, numbers);
    return numbers;
}

Numbers Formulas::computed(int number, const AxisRanges& ranges) const {
    const ProgramNode& node = call_.program.node(number);
    switch (node.op) {
        case ProgramOp::number: {
            const double x = node.number;
            const double off = std::isfinite(x) && double(float(x)) != x ? u_f32 * std::abs(x) : 0;
            Numbers one = Numbers::of(x);
            if (off > 0) one.error = {off};
            return one;
        }
        case ProgramOp::size:
            return Numbers::of(double(call_.sizes[std::size_t(node.what)]));
        case ProgramOp::axis: {
            const AxisRange& range = ranges[std::size_t(node.what)];
            Numbers indices = Numbers::along({node.what}, {range.count});
            for (std::int64_t i = 0; i < range.count; ++i)
                indices.value[std::size_t(i)] = double(range.first + i);
            return indices;
        }
        case ProgramOp::read:
            return read(node, ranges);
        case ProgramOp::negative: {
            const Numbers x = value(node.of[0], ranges);
            return combined<1>({&x}, x.is_exact(), [](const auto& of) { return negative(of[0]); });
        }
        case ProgramOp::opposite: {
            const Numbers x = value(node.of[0], ranges);
            return combined<1>({&x}, x.is_exact(), [](const auto& of) {
                return Uncertain{1 - of[0].value, of[0].error};
            });
        }
        case ProgramOp::chosen:
            return chosen_of(node, ranges);
        case ProgramOp::call:
            return call(node, ranges);
        case ProgramOp::cast: {
            Numbers x = value(node.of[0], ranges);
            if (watch_ != nullptr && !watch_->rounds(number)) return x;
            return cast_of(Dtype(node.what), x);
        }
        case ProgramOp::sum:
        case ProgramOp::most:
        case ProgramOp::least:
            return along(node, ranges);
        default:
            return of_two(node, ranges);
    }
}

Numbers Formulas::chosen_of(const ProgramNode& node, const AxisRanges& ranges) const {
    const Numbers condition = value(node.of[1], ranges);
    if (std::optional<Numbers> result = chosen_in_part(node, condition, ranges)) return *std::move(result);
    const Numbers x = value(node.of[0], ranges);
    const Numbers otherwise = value(node.of[2], ranges);
    return chosen_of_each(x, condition, otherwise);
}

/// Of a condition that holds for some indices next to one another, as of one row: what it chooses is computed for these alone.
/// nullopt: it holds for too many, or is not known.
std::optional<Numbers> Formulas::chosen_in_part(const ProgramNode& node, const Numbers& condition,
                                                const AxisRanges& ranges) const {
    // Whoever watches sees all of it.
    if (watch_ != nullptr || !condition.is_exact() || condition.axes.empty()) return std::nullopt;
    const std::optional<AxisRanges> there = where_it_holds(condition, ranges);
    if (!there) return std::nullopt;
    double share = 1;
    for (const int axis : condition.axes)
        share *= double((*there)[std::size_t(axis)].count) / double(ranges[std::size_t(axis)].count);
    if (share > 0.5) return std::nullopt;
    Numbers otherwise = value(node.of[2], ranges);
    const Numbers x = value(node.of[0], *there);
    std::vector<int> axes = otherwise.axes;
    for (const Numbers* const numbers : {&x, &condition})
        axes.insert(axes.end(), numbers->axes.begin(), numbers->axes.end());
    std::ranges::sort(axes);
    const auto doubled = std::ranges::unique(axes);
    axes.erase(doubled.begin(), doubled.end());
    std::vector<std::int64_t> extents;
    for (const int axis : axes) extents.push_back(ranges[std::size_t(axis)].count);
    const bool is_exact = x.is_exact() && otherwise.is_exact();
    Numbers result = laid_out(std::move(otherwise), axes, extents);
    result.error.resize(result.value.size());
    PerAxis steps(axes.size(), 1);
    std::int64_t first = 0;
    for (std::size_t i = axes.size(); i > 0; --i) {
        if (i < axes.size()) steps[i - 1] = steps[i] * extents[i];
        const AxisRange& part = (*there)[std::size_t(axes[i - 1])];
        first += steps[i - 1] * (part.first - ranges[std::size_t(axes[i - 1])].first);
    }
    std::vector<std::int64_t> few;
    for (const int axis : axes) few.push_back((*there)[std::size_t(axis)].count);
    const Numbers part =
        chosen_of_each(x, value(node.of[1], *there), part_of(result, first, axes, few, steps));
    put_part(laid_out(part, axes, few), first, steps, result);
    if (is_exact) result.error.clear();
    return result;
}

void Formulas::addends_of(int number, bool is_negative, const AxisRanges& ranges,
                          std::vector<Numbers>& addends) const {
    const ProgramNode& node = call_.program.node(number);
    if (!node.is_whole && (node.op == ProgramOp::plus || node.op == ProgramOp::minus)) {
        addends_of(node.of[0], is_negative, ranges, addends);
        addends_of(node.of[1], is_negative != (node.op == ProgramOp::minus), ranges, addends);
        return;
    }
    addends.push_back(value(number, ranges));
    if (!is_negative) return;
    for (double& x : addends.back().value) x = -x;
}

/// Of three and more: kernels add them in any order, so that each partial sum may be as large as all magnitudes together.
Numbers Formulas::sum_of_addends(const std::vector<Numbers>& addends) const {
    const auto magnitude = [](Uncertain x) { return std::abs(x.value); };
    Numbers sum = addends.front();
    Numbers magnitudes = combined<1>({&sum}, true, [&](const auto& of) {
        return Uncertain{magnitude(of[0]), 0};
    });
    for (std::size_t i = 1; i < addends.size(); ++i) {
        sum = combined<2>({&sum, &addends[i]}, false, [](const auto& of) {
            return Uncertain{of[0].value + of[1].value, of[0].error + of[1].error};
        });
        magnitudes = combined<2>({&magnitudes, &addends[i]}, true, [&](const auto& of) {
            return Uncertain{of[0].value + magnitude(of[1]), 0};
        });
    }
    const double roundings = double(addends.size() - 1) * u_f32;
    return combined<2>({&sum, &magnitudes}, false, [=](const auto& of) {
        const bool is_number = std::isfinite(of[0].value);
        const double unknown_error = std::isinf(of[0].error) ? not_known : 0;
        return in_range({of[0].value, is_number ? of[0].error + roundings * of[1].value : unknown_error});
    });
}

Numbers Formulas::of_two(const ProgramNode& node, const AxisRanges& ranges) const {
    if (!node.is_whole && (node.op == ProgramOp::plus || node.op == ProgramOp::minus)) {
        const std::vector<Numbers> addends = addends_of(node, ranges);
        Numbers sum = addends.size() > 2 ? sum_of_addends(addends) : sum_of_two(addends[0], addends[1]);
        return in_type_of_state(node, std::move(sum), addends.size() - 1);
    }
    const Numbers x = value(node.of[0], ranges);
    const Numbers y = value(node.of[1], ranges);
    const bool is_exact = x.is_exact() && y.is_exact();
    if (node.is_whole)
        return combined<2>({&x, &y}, true, [&](const auto& of) {
            return Uncertain{whole_of_two(node.op, of[0].value, of[1].value), 0};
        });
    if (node.op >= ProgramOp::less && node.op <= ProgramOp::unequal)
        return combined<2>({&x, &y}, is_exact,
                           [&](const auto& of) { return compared(node.op, of[0], of[1]); });
    if (node.op == ProgramOp::both || node.op == ProgramOp::either)
        return combined<2>({&x, &y}, is_exact, [&](const auto& of) {
            return joined(node.op == ProgramOp::either ? 1 : 0, of[0], of[1]);
        });
    if (node.op == ProgramOp::times) return in_type_of_state(node, product_of(x, y), 2);
    const bool takes_bits = node.op == ProgramOp::exclusive || node.op == ProgramOp::masked;
    const bool rounds_nothing = takes_bits || node.op == ProgramOp::smaller || node.op == ProgramOp::larger;
    Numbers result = combined<2>({&x, &y}, is_exact && rounds_nothing,
                                 [&](const auto& of) { return real_of_two(node.op, of[0], of[1]); });
    // What it is multiplied with may be rounded as well.
    return rounds_nothing ? result : in_type_of_state(node, std::move(result), 2);
}

/// Whether it is made of the state of the stage itself.
bool Formulas::is_of_state(int number) const {
    const ProgramNode& node = call_.program.node(number);
    switch (node.op) {
        case ProgramOp::read:
            return node.what == stage_;
        case ProgramOp::plus:
        case ProgramOp::minus:
        case ProgramOp::times:
        case ProgramOp::quotient:
            return is_of_state(node.of[0]) || is_of_state(node.of[1]);
        case ProgramOp::chosen:
        case ProgramOp::negative:
            return is_of_state(node.of[0]);
        default:
            return false;
    }
}

/// A state that is kept in a narrow type may be computed in it: what so many operations round then.
Numbers Formulas::in_type_of_state(const ProgramNode& node, Numbers numbers, std::size_t operations) const {
    const ProgramArray& array = call_.program.array(stage_);
    const bool is_narrow = array.over >= 0 && array.dtype != Dtype::f32;
    if (!is_narrow || !(is_of_state(node.of[0]) || is_of_state(node.of[1]))) return numbers;
    const double unit = double(operations) * unit_roundoff(array.dtype);
    for (std::size_t i = 0; i < numbers.value.size(); ++i) {
        if (std::isfinite(numbers.value[i]))
            numbers.error[i] += unit * std::abs(numbers.value[i]) + half_quantum(array.dtype);
    }
    return numbers;
}

/// Whether what a sum along axes is added to is a state that it may begin with: no accumulator is wider than its own.
bool Formulas::begins_with_state(const ProgramNode& sum, int state) const {
    const bool is_half = sum.accumulation == Accumulation::fma_f16 ||
                         sum.accumulation == Accumulation::fma_bf16 ||
                         sum.accumulation == Accumulation::tensor_core_f16;
    const bool is_narrow = call_.program.array(stage_).dtype != Dtype::f32;
    return sum.op == ProgramOp::sum && is_of_state(state) && (is_narrow || !is_half);
}

/// The numbers that a sum or a difference adds up.
std::vector<Numbers> Formulas::addends_of(const ProgramNode& node, const AxisRanges& ranges) const {
    std::vector<Numbers> addends;
    for (const auto& [sum, other] : {std::pair(node.of[0], node.of[1]), std::pair(node.of[1], node.of[0])}) {
        const ProgramNode& of_sum = call_.program.node(sum);
        if (node.op != ProgramOp::plus || !begins_with_state(of_sum, other)) continue;
        addends_of(other, false, ranges, addends);
        const Numbers start = addends.size() == 1 ? addends.front() : sum_of_addends(addends);
        addends.push_back(watched(sum, ranges, along(of_sum, ranges, &start)));
        return addends;
    }
    addends_of(node.of[0], false, ranges, addends);
    addends_of(node.of[1], node.op == ProgramOp::minus, ranges, addends);
    return addends;
}

Numbers Formulas::call(const ProgramNode& node, const AxisRanges& ranges) const {
    const auto function = ProgramFunction(node.what);
    const ProgramNode& of = call_.program.node(node.of[0]);
    const bool is_exponential = function == ProgramFunction::exp || function == ProgramFunction::exp2;
    if (is_exponential && of.op == ProgramOp::minus) {
        const Numbers x = value(of.of[0], ranges);
        const Numbers y = value(of.of[1], ranges);
        const double scale = function == ProgramFunction::exp2 ? std::numbers::ln2 : 1;
        return combined<2>(
            {&x, &y}, false,
            [&](const auto& both, std::int64_t count, ElementResult to) {
                return element_kernels().exponentials_of_differences(both[0], both[1], scale, count, to);
            },
            [&](const auto& both) {
                return in_range(exponential_of_difference(function, both[0], both[1]));
            });
    }
    const Numbers x = value(node.of[0], ranges);
    if (is_exponential && of.op == ProgramOp::smaller) {
        const Numbers one = value(of.of[0], ranges);
        const Numbers other = value(of.of[1], ranges);
        if (one.is_exact() || other.is_exact())
            return combined<2>({&x, one.is_exact() ? &one : &other}, false, [&](const auto& both) {
                return in_range(exponential_up_to(function, both[0], both[1].value));
            });
    }
    const auto one_by_one = [&](const auto& one) { return in_range(function_of(function, one[0])); };
    if (function != ProgramFunction::exp) return combined<1>({&x}, false, one_by_one);
    return combined<1>(
        {&x}, false,
        [](const auto& one, std::int64_t count, ElementResult to) {
            return element_kernels().exponentials(one[0], count, to);
        },
        one_by_one);
}

}  // namespace tilescope
