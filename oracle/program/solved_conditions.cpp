#include <algorithm>
#include <array>
#include <optional>

#include "oracle/program/functions.h"
#include "oracle/program/solved.h"

namespace tilescope {

namespace {

constexpr std::array<ProgramOp, 6> comparisons = {ProgramOp::less,  ProgramOp::at_most,
                                                  ProgramOp::more,  ProgramOp::at_least,
                                                  ProgramOp::equal, ProgramOp::unequal};
constexpr std::array<std::int64_t, 14> moves = {1, -1, 2, -2, 4, -4, 8, -8, 16, -16, 32, -32, 64, -64};
constexpr double bits_of_left_out = 3;
constexpr double bits_of_other_number = 6;
constexpr double bits_of_other_comparison = 2.5;

/// What may stand on one side of a comparison.
struct Side {
    int node;
    double bits = 0;
};

void collect_axes(const Program& program, int number, std::vector<int>& axes) {
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::axis) axes.push_back(node.what);
    for (const int operand : node.of) {
        if (operand >= 0) collect_axes(program, operand, axes);
    }
}

/// Itself; and without an axis, or with another number in the place of one.
std::vector<Side> sides_like(RewriteOffers& offers, const NodeSamples& of, int own) {
    ProgramBuilder& build = offers.build();
    std::vector<Side> sides{{own}};
    std::vector<int> axes;
    collect_axes(offers.program(), own, axes);
    for (const int axis : axes) {
        sides.push_back({build.at_index(own, axis, build.whole(0)), bits_of_left_out});
        for (const PlaceNumber& number : offers.numbers_of(of)) {
            if (number.axis != axis || number.kind != PlaceNumber::Kind::index)
                sides.push_back({build.at_index(own, axis, number.node(build)), bits_of_other_number});
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

/// Other comparisons of the same numbers, of numbers that are off, and of others.
void offer_comparisons(RewriteOffers& offers, const NodeSamples& of) {
    const ProgramNode comparison = offers.program().node(of.node);
    const ProgramCall& call = offers.samples().call();
    const std::array<std::vector<Side>, 2> sides = {sides_like(offers, of, comparison.of[0]),
                                                    sides_like(offers, of, comparison.of[1])};
    std::vector<double> values(of.samples.size());
    for (std::size_t i = 0; i < sides[0].size(); ++i) {
        for (std::size_t k = 0; k < sides[1].size(); ++k) {
            if (i > 0 && k > 0) continue;
            const bool is_same = i + k == 0;
            const auto left = numbers_at(call, of, sides[0][i].node);
            const auto right = numbers_at(call, of, sides[1][k].node);
            if (!left || !right) continue;
            const auto offer = [&](ProgramOp op, std::int64_t by) {
                for (std::size_t n = 0; n < values.size(); ++n)
                    values[n] = holds(op, double((*left)[n]), double((*right)[n] + by)) ? 1 : 0;
                const int instead =
                    offers.build().of_two(op, sides[0][i].node, offers.build().moved(sides[1][k].node, by));
                offers.offer(of, instead, values,
                             sides[0][i].bits + sides[1][k].bits +
                                 (op == comparison.op ? 0 : bits_of_other_comparison) +
                                 (by == 0 ? 0 : bits_of_number(by)),
                             "guard");
            };
            for (const ProgramOp op : comparisons) {
                if (op != comparison.op || !is_same) offer(op, 0);
                for (const std::int64_t by : moves) {
                    if (is_same) offer(op, by);
                }
            }
        }
    }
}

}  // namespace

void offer_conditions(RewriteOffers& offers, const NodeSamples& of) {
    const Program& program = offers.program();
    const ProgramNode condition = program.node(of.node);
    const bool compares = condition.op >= ProgramOp::less && condition.op <= ProgramOp::unequal;
    if (compares && program.node(condition.of[0]).is_whole && program.node(condition.of[1]).is_whole)
        offer_comparisons(offers, of);
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
