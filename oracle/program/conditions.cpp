#include "oracle/program/conditions.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/solve/place_rule.h"

namespace tilescope {

namespace {

constexpr double share_otherwise = 0.02;
/// Of a coordinate or an operation that is written with one sign; of one that takes several.
constexpr double bits_of_operation = 2;
constexpr double bits_of_change = 6;
/// As a PlaceCondition has it that is open to one side.
constexpr std::int64_t unbounded = std::numeric_limits<std::int32_t>::max();

FoundCondition condition_of(PlaceCondition one, const PlaceNumber& number, ProgramBuilder& build) {
    FoundCondition found{-1, 5 + (one.period > 0 ? bits_of_number(one.period) : 0)};
    // The last index is one.
    if (number.kind != PlaceNumber::Kind::block && one.is_from_end && one.first == -1) one.last = 0;
    int x = number.node(build);
    if (one.period > 0) x = build.of_two(ProgramOp::rest, x, build.whole(one.period));
    const auto bound = [&](std::int64_t at) {
        found.bits += bits_of_number(at);
        return one.is_from_end ? build.moved(number.end_node(build), at) : build.whole(at);
    };
    if (one.last == one.first + 1) {
        found.node = build.of_two(ProgramOp::equal, x, bound(one.first));
        return found;
    }
    if (one.first > (one.period > 0 ? 0 : -unbounded))
        found.node = build.of_two(ProgramOp::at_least, x, bound(one.first));
    if (one.last < (one.period > 0 ? one.period : unbounded))
        found.node = build.both(found.node, build.of_two(ProgramOp::less, x, bound(one.last)));
    return found;
}

}  // namespace

double bits_of_number(std::int64_t number) {
    return 2 * std::floor(std::log2(double(std::abs(number)) + 1)) + 1;
}

double bits_of_expression(const Expr& expr) {
    double bits = 0;
    for (const Expr::Node& node : expr.nodes()) {
        const bool has_number = node.op == Op::number || node.op > Op::at_least;
        bits += node.op == Op::number ? 0 : node.op > Op::at_least ? bits_of_change : bits_of_operation;
        if (has_number) bits += bits_of_number(node.n) + (node.k == 0 ? 0 : bits_of_number(node.k));
    }
    return bits;
}

std::int64_t PlaceNumber::of(const ProgramCall& call, const AxisIndices& at) const {
    const std::int64_t index = at[std::size_t(axis)];
    const std::int64_t block = call.blocks[std::size_t(axis)];
    return kind == Kind::index ? index : kind == Kind::block ? index / block : index % block;
}

std::int64_t PlaceNumber::end(const ProgramCall& call) const {
    const std::int64_t extent = call.extents[std::size_t(axis)];
    const std::int64_t block = call.blocks[std::size_t(axis)];
    return kind == Kind::index ? extent : kind == Kind::block ? extent / block : block;
}

int PlaceNumber::node(ProgramBuilder& build) const {
    return kind == Kind::index   ? build.axis(axis)
           : kind == Kind::block ? build.block_of(axis)
                                 : build.within_block(axis);
}

int PlaceNumber::end_node(ProgramBuilder& build) const {
    const ProgramAxis& of = build.program().axes[std::size_t(axis)];
    return kind == Kind::index   ? of.extent
           : kind == Kind::block ? build.of_two(ProgramOp::quotient, of.extent, of.block)
                                 : of.block;
}

std::vector<PlaceNumber> place_numbers(const Program& program, const std::vector<int>& axes,
                                       const std::vector<int>& by_block) {
    std::vector<PlaceNumber> all;
    for (const int axis : axes) all.push_back({axis, PlaceNumber::Kind::index});
    for (const int axis : axes) {
        if (program.axes[std::size_t(axis)].block >= 0) all.push_back({axis, PlaceNumber::Kind::block});
    }
    for (const int axis : by_block) all.push_back({axis, PlaceNumber::Kind::block});
    for (const int axis : axes) {
        if (program.axes[std::size_t(axis)].block >= 0) all.push_back({axis, PlaceNumber::Kind::within});
    }
    return all;
}

namespace {

std::optional<FoundCondition> find_inside(const ProgramCall& call, ProgramBuilder& build,
                                          const std::vector<LabelledIndices>& places,
                                          const std::vector<PlaceNumber>& numbers) {
    std::vector<LabelledPlace> labelled;
    PlaceEnds ends{};
    const std::size_t count = std::min(numbers.size(), most_coordinates);
    for (const LabelledIndices& place : places) {
        LabelledPlace& one = labelled.emplace_back();
        one.inside = place.is_inside;
        for (std::size_t k = 0; k < count; ++k) one.at[k] = std::int32_t(numbers[k].of(call, place.at));
    }
    for (std::size_t k = 0; k < count; ++k) ends[k] = numbers[k].end(call);
    const auto insides = std::ranges::count(places, true, &LabelledIndices::is_inside);
    const auto fewer = std::min(insides, std::ssize(places) - insides);
    const std::optional<PlaceRule> rule =
        find_place_rule(labelled, count, std::int64_t(share_otherwise * double(fewer)), ends);
    if (!rule) return std::nullopt;
    FoundCondition all;
    for (const PlaceCondition& condition : rule->conditions) {
        const FoundCondition one = condition_of(condition, numbers[condition.coordinate], build);
        all = {build.both(all.node, one.node), all.bits + one.bits};
    }
    if (all.node < 0) return std::nullopt;
    return all;
}

}  // namespace

std::optional<FoundCondition> find_condition(const ProgramCall& call, ProgramBuilder& build,
                                             const std::vector<LabelledIndices>& places,
                                             const std::vector<PlaceNumber>& numbers) {
    if (const auto found = find_inside(call, build, places, numbers)) return found;
    std::vector<LabelledIndices> others = places;
    for (LabelledIndices& place : others) place.is_inside = !place.is_inside;
    const auto found = find_inside(call, build, others, numbers);
    if (!found) return std::nullopt;
    return FoundCondition{build.add({.op = ProgramOp::opposite, .of = {found->node, -1, -1}}),
                          found->bits + bits_of_operation};
}

}  // namespace tilescope
