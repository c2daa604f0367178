#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "oracle/program/functions.h"
#include "oracle/program/solved.h"

namespace tilescope {

namespace {

constexpr double bits_of_extents = 5;

/// What may stand on one side of a comparison.
struct Side {
    int node;
    double bits = 0;
};

/// Terms of a sum of whole numbers, alone and with others left out.
void add_terms(const Program& program, int number, std::vector<Side>& sides) {
    const ProgramNode& node = program.node(number);
    if (node.op != ProgramOp::plus && node.op != ProgramOp::minus) return;
    sides.push_back({node.of[0], bits_of_left_out});
    add_terms(program, node.of[0], sides);
}

/// Itself; without terms or an axis, with another number in the place of one, or with one divided by a size of the call, or its rest.
std::vector<Side> sides_like(RewriteOffers& offers, const NodeSamples& of, int own) {
    ProgramBuilder& build = offers.build();
    const Program& program = offers.program();
    std::vector<Side> sides{{own}};
    add_terms(program, own, sides);
    std::vector<int> axes;
    for_each_node(program, own, [&](int node) {
        if (const int axis = program.axis_of(node); axis >= 0) axes.push_back(axis);
    });
    for (std::size_t i = sides.size(); i-- > 1;) {
        for (const int axis : axes) {
            if (program.axes[std::size_t(axis)].block >= 0)
                sides.push_back(
                    {build.at_index(sides[i].node, axis, build.within_block(axis)), bits_of_left_out});
        }
    }
    for (const int axis : axes) {
        sides.push_back({build.at_index(own, axis, build.whole(0)), bits_of_left_out});
        for (const int other : of.axes) {
            const bool is_cut = program.axes[std::size_t(other)].block >= 0;
            for (const PlaceNumber::Kind kind :
                 {PlaceNumber::Kind::index, PlaceNumber::Kind::block, PlaceNumber::Kind::within}) {
                const bool is_index = kind == PlaceNumber::Kind::index;
                if (is_index ? other != axis : is_cut)
                    sides.push_back({build.at_index(own, axis, PlaceNumber{other, kind}.node(build)),
                                     other == axis ? bits_of_left_out : bits_of_other_number});
            }
        }
        for (int size = 0; size < int(program.sizes.size()); ++size) {
            const std::int64_t by = offers.samples().call().sizes[std::size_t(size)];
            if (by < 2) continue;
            const int divisor = build.add({.op = ProgramOp::size, .what = size, .is_whole = true});
            for (const ProgramOp op : {ProgramOp::quotient, ProgramOp::rest})
                sides.push_back({build.at_index(own, axis, build.of_two(op, build.axis(axis), divisor)),
                                 bits_of_other_number});
        }
    }
    return sides;
}

/// Of each sample; nullopt where one is not known.
std::optional<std::vector<std::int64_t>> numbers_at(const ProgramCall& call, const NodeSamples& of,
                                                    int node) {
    std::vector<std::int64_t> numbers;
    std::vector<std::int64_t> at(call.program.axes.size());
    for (const NodeSample& sample : of.samples) {
        std::copy_n(sample.at.begin(), at.size(), at.begin());
        const std::optional<std::int64_t> number = whole_at(call, node, at);
        if (!number) return std::nullopt;
        numbers.push_back(*number);
    }
    return numbers;
}

/// What has to be added to the right side so that the comparison holds where it must, and nowhere else but for a few places;
/// nullopt: nothing does.
std::optional<std::int64_t> shift_of(ProgramOp op, const std::vector<std::int64_t>& left,
                                     const std::vector<std::int64_t>& right, const NodeSamples& of) {
    std::map<std::int64_t, std::array<std::int64_t, 2>> counts;  // of each difference: must not, must hold
    for (std::size_t i = 0; i < left.size(); ++i)
        ++counts[left[i] - right[i]][of.samples[i].needed != 0 ? 1 : 0];
    std::array<std::int64_t, 2> all{};
    for (const auto& [difference, count] : counts)
        for (std::size_t k = 0; k < 2; ++k) all[k] += count[k];
    if (all[0] == 0 || all[1] == 0) return std::nullopt;
    const bool is_upper = op == ProgramOp::less || op == ProgramOp::at_most;
    const bool goes_up_to = op == ProgramOp::at_most || op == ProgramOp::more;
    std::int64_t fewest = std::int64_t(unexplained_share * double(std::min(of.wrong, all[0]))) + 1;
    std::int64_t below = is_upper ? all[1] : all[0];
    std::optional<std::int64_t> best;
    for (const auto& [difference, count] : counts) {
        // Those up to here are below.
        below += is_upper ? count[0] - count[1] : count[1] - count[0];
        const std::int64_t misplaced = op == ProgramOp::equal     ? all[1] - count[1] + count[0]
                                       : op == ProgramOp::unequal ? all[0] - count[0] + count[1]
                                                                  : below;
        if (misplaced >= fewest) continue;
        fewest = misplaced;
        const bool is_here = goes_up_to || op == ProgramOp::equal || op == ProgramOp::unequal;
        best = is_here ? difference : difference + 1;
    }
    return best;
}

/// A side with a number added, which is said as itself or as the difference of two extents.
std::vector<Side> moved_sides(RewriteOffers& offers, const Side& side, std::int64_t by) {
    if (by == 0) return {side};
    ProgramBuilder& build = offers.build();
    std::vector<Side> all{{build.moved(side.node, by), side.bits + bits_of_number(by)}};
    const ProgramCall& call = offers.samples().call();
    const std::vector<ProgramAxis>& axes = offers.program().axes;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        for (std::size_t k = 0; k < axes.size(); ++k) {
            const bool are_cut = axes[i].block >= 0 && axes[k].block >= 0;
            if (!are_cut || call.extents[i] - call.extents[k] != by) continue;
            const int from = build.of_two(ProgramOp::plus, side.node, axes[i].extent);
            all.push_back(
                {build.of_two(ProgramOp::minus, from, axes[k].extent), side.bits + bits_of_extents});
        }
    }
    return all;
}

/// Other comparisons of the same numbers, of numbers that are off, and of others.
void offer_comparisons(RewriteOffers& offers, const NodeSamples& of) {
    const ProgramNode comparison = offers.program().node(of.node);
    const ProgramCall& call = offers.samples().call();
    const std::array<std::vector<Side>, 2> sides = {sides_like(offers, of, comparison.of[0]),
                                                    sides_like(offers, of, comparison.of[1])};
    std::vector<double> values(of.samples.size());
    for (std::size_t i = 0; i < sides[0].size(); ++i) {
        for (std::size_t k = 0; k < sides[1].size(); ++k) {
            const bool are_within =
                sides[0][i].bits <= bits_of_left_out && sides[1][k].bits <= bits_of_left_out;
            if (i > 0 && k > 0 && !are_within) continue;
            const auto left = numbers_at(call, of, sides[0][i].node);
            const auto right = numbers_at(call, of, sides[1][k].node);
            if (!left || !right) continue;
            for (const ProgramOp op : all_comparisons) {
                const std::optional<std::int64_t> by = shift_of(op, *left, *right, of);
                if (!by || (op == comparison.op && i + k == 0 && *by == 0)) continue;
                for (std::size_t n = 0; n < values.size(); ++n)
                    values[n] = holds(op, double((*left)[n]), double((*right)[n] + *by)) ? 1 : 0;
                for (const Side& than : moved_sides(offers, sides[1][k], *by))
                    offers.offer(
                        of, offers.build().of_two(op, sides[0][i].node, than.node), values,
                        sides[0][i].bits + than.bits + (op == comparison.op ? 0 : bits_of_other_comparison),
                        "guard");
            }
        }
    }
}

}  // namespace

void offer_conditions(RewriteOffers& offers, const NodeSamples& of) {
    const Program& program = offers.program();
    const ProgramNode condition = program.node(of.node);
    const bool compares = is_comparison(condition.op);
    if (compares && program.node(condition.of[0]).is_whole && program.node(condition.of[1]).is_whole)
        offer_comparisons(offers, of);
    else if (compares)
        offer_comparisons_of_reals(offers, of);
    ProgramBuilder& build = offers.build();
    for (const bool always : {true, false}) {
        const int instead = build.of_two(ProgramOp::equal, build.whole(always ? 0 : 1), build.whole(0));
        offers.offer(of, instead, std::vector<double>(of.samples.size(), always ? 1.0 : 0.0), 1, "guard");
    }
    // Of whatever places it holds.
    std::vector<LabelledIndices> places;
    for (const NodeSample& sample : of.samples) places.push_back({sample.at, sample.needed != 0});
    if (const auto other = find_condition(offers.samples().call(), build, places, offers.numbers_of(of)))
        offers.add(of.stage, of.node, other->node, other->bits, "guard");
}

}  // namespace tilescope
