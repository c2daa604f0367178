#include "oracle/program/alternatives.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <utility>

namespace tilescope {

std::vector<ProgramFunction> functions_like(ProgramFunction function) {
    switch (function) {
        case ProgramFunction::exp:
            return {ProgramFunction::exp2};
        case ProgramFunction::exp2:
            return {ProgramFunction::exp};
        case ProgramFunction::log:
            return {ProgramFunction::log2};
        case ProgramFunction::log2:
            return {ProgramFunction::log};
        case ProgramFunction::sqrt:
            return {ProgramFunction::rsqrt};
        case ProgramFunction::rsqrt:
            return {ProgramFunction::sqrt};
        case ProgramFunction::silu:
        case ProgramFunction::gelu:
        case ProgramFunction::relu:
        case ProgramFunction::sigmoid:
        case ProgramFunction::tanh:
        case ProgramFunction::softplus:
            return {ProgramFunction::silu,    ProgramFunction::gelu, ProgramFunction::relu,
                    ProgramFunction::sigmoid, ProgramFunction::tanh, ProgramFunction::softplus};
        case ProgramFunction::round:
        case ProgramFunction::trunc:
            return {ProgramFunction::round, ProgramFunction::trunc};
        case ProgramFunction::abs:
            return {};
    }
    return {};
}

std::vector<ProgramOp> comparisons_like(ProgramOp op) {
    switch (op) {
        case ProgramOp::less:
            return {ProgramOp::at_most, ProgramOp::at_least, ProgramOp::more};
        case ProgramOp::at_most:
            return {ProgramOp::less, ProgramOp::more, ProgramOp::at_least};
        case ProgramOp::more:
            return {ProgramOp::at_least, ProgramOp::at_most, ProgramOp::less};
        case ProgramOp::at_least:
            return {ProgramOp::more, ProgramOp::less, ProgramOp::at_most};
        case ProgramOp::equal:
            return {ProgramOp::unequal, ProgramOp::at_most, ProgramOp::at_least};
        default:
            return {ProgramOp::equal};
    }
}

namespace {

/// In the place of the index in its own block another number that the kernel has at hand; and the index with bits of that exchanged, as
/// addresses in shared memory have them.
void add_numbers_at_hand(ProgramBuilder& build, const Program& program, int index, const AxisSet& fixed,
                         std::vector<Alternative>& all) {
    const int own = program.axis_of(index);
    if (own < 0) return;
    const bool is_cut = program.axes[std::size_t(own)].block >= 0;
    const int first =
        is_cut ? build.of_two(ProgramOp::times, build.block_of(own), program.axes[std::size_t(own)].block)
               : -1;
    const auto add = [&](int number, double bits) {
        all.push_back({is_cut ? build.of_two(ProgramOp::plus, first, number) : number, bits});
    };
    if (is_cut) add(build.block_of(own), 6);
    for (std::size_t i = 0; i < program.axes.size(); ++i) {
        if (!fixed[i] || int(i) == own) continue;
        const bool is_other_cut = program.axes[i].block >= 0;
        if (is_cut) add(is_other_cut ? build.within_block(int(i)) : build.axis(int(i)), 6);
        if (is_other_cut) add(build.block_of(int(i)), 6);
        const int low = build.of_two(ProgramOp::rest, build.axis(int(i)), build.whole(8));
        all.push_back({build.of_two(ProgramOp::exclusive, index, low), 4});
    }
}

}  // namespace

std::vector<Alternative> indices_like(ProgramBuilder& build, const Program& program, int index,
                                      const AxisSet& fixed, int extent) {
    std::vector<Alternative> all{{build.whole(0)}};
    add_numbers_at_hand(build, program, index, fixed, all);
    for (const std::int64_t by : {1, -1}) all.push_back({build.moved(index, by)});
    all.push_back({build.of_two(ProgramOp::larger, build.moved(index, -1), build.whole(0)), 1});
    if (extent >= 0) {
        all.push_back({build.of_two(ProgramOp::minus, build.moved(extent, -1), index), 3});
        all.push_back({build.of_two(ProgramOp::smaller, build.moved(index, 1), build.moved(extent, -1)), 1});
        all.push_back({build.of_two(ProgramOp::smaller, index, build.moved(extent, -2)), 2});
        all.push_back({build.of_two(ProgramOp::rest, build.moved(index, 1), extent), 1});
        all.push_back({build.of_two(ProgramOp::rest,
                                    build.of_two(ProgramOp::plus, index, build.moved(extent, -1)), extent),
                       2});
    }
    for (const std::int64_t by : {2, 4, 8, 16, 32}) {
        const double bits = 1 + std::log2(double(by));
        all.push_back(
            {build.of_two(ProgramOp::times, build.of_two(ProgramOp::quotient, index, build.whole(by)),
                          build.whole(by)),
             bits});
        all.push_back({build.of_two(ProgramOp::rest, index, build.whole(by)), bits});
        all.push_back({build.of_two(ProgramOp::exclusive, index, build.whole(by)), bits});
    }
    for (const std::int64_t by : {2, 4})
        all.push_back({build.of_two(ProgramOp::quotient, index, build.whole(by)), 2});
    // The fragment before, or the one behind, where there is one.
    constexpr std::int64_t fragment = 16;
    const int has_before = build.of_two(ProgramOp::at_least, index, build.whole(fragment));
    all.push_back({build.chosen(build.moved(index, -fragment), has_before, index), 6});
    if (extent >= 0) {
        const int has_next = build.of_two(ProgramOp::less, build.moved(index, fragment), extent);
        all.push_back({build.chosen(build.moved(index, fragment), has_next, index), 6});
    }
    for (std::size_t i = 0; i < program.axes.size(); ++i) {
        if (!fixed[i]) continue;
        const bool is_own = program.axis_of(index) == int(i);
        if (!is_own) all.push_back({build.axis(int(i)), 1});
        if (program.axes[i].block < 0) continue;
        const int block = program.axes[i].block;
        all.push_back({build.of_two(ProgramOp::rest, build.axis(int(i)), block), is_own ? 1.0 : 3.0});
        // Around the end of the block.
        if (is_own) {
            const int begin = build.of_two(ProgramOp::times, build.block_of(int(i)), block);
            const int next = build.of_two(ProgramOp::rest, build.moved(build.within_block(int(i)), 1), block);
            all.push_back({build.of_two(ProgramOp::plus, begin, next), 3});
            const int from_end =
                build.of_two(ProgramOp::minus, build.moved(block, -1), build.within_block(int(i)));
            all.push_back({build.of_two(ProgramOp::plus, begin, from_end), 3});
        }
        const int before = build.of_two(ProgramOp::minus, index, block);
        all.push_back({before, is_own ? 1.0 : 3.0});
        // The first block is its own.
        if (is_own)
            all.push_back(
                {build.of_two(ProgramOp::larger, before, build.of_two(ProgramOp::rest, index, block)), 2});
        const int next = build.of_two(ProgramOp::plus, index, block);
        all.push_back({next, is_own ? 1.0 : 3.0});
        // Half of a block is that of the one before already, or still.
        const int half = build.of_two(ProgramOp::quotient, block, build.whole(2));
        for (const ProgramOp op : {ProgramOp::less, ProgramOp::at_least}) {
            if (!is_own || extent < 0) break;
            const int is_of_other = build.of_two(op, build.within_block(int(i)), half);
            const int is_there = build.of_two(ProgramOp::less, next, extent);
            all.push_back({build.chosen(next, build.both(is_of_other, is_there), index), 8});
            const int was_there = build.of_two(ProgramOp::at_least, before, build.whole(0));
            all.push_back({build.chosen(before, build.both(is_of_other, was_there), index), 8});
        }
    }
    const ProgramNode node = program.node(index);
    if (node.op == ProgramOp::plus && program.node(node.of[0]).op == ProgramOp::times) {
        // x X + y as y E + x, of whose x there are E.
        const int x = program.node(node.of[0]).of[0];
        const int of = program.axis_of(x);
        if (of >= 0)
            all.push_back(
                {build.of_two(
                     ProgramOp::plus,
                     build.of_two(ProgramOp::times, node.of[1], program.axes[std::size_t(of)].extent), x),
                 1});
    }
    if (node.op != ProgramOp::quotient && node.op != ProgramOp::rest) return all;
    const bool divides = node.op == ProgramOp::quotient;
    all.push_back({build.of_two(divides ? ProgramOp::rest : ProgramOp::quotient, node.of[0], node.of[1])});
    all.push_back({node.of[0]});
    all.push_back(
        {build.of_two(node.op, node.of[0], build.of_two(ProgramOp::times, node.of[1], build.whole(2))), 1});
    return all;
}

/// What it is at some places, and at both ends of each axis; beyond the extent it is -1.
std::vector<std::int64_t> OtherIndices::sampled(int index, int extent) const {
    constexpr std::uint64_t places = 24;
    constexpr std::uint64_t at_ends = 8;
    std::vector<std::int64_t> at(program_.axes.size());
    const std::int64_t end =
        extent < 0 ? std::numeric_limits<std::int64_t>::max() : whole_at(call_, extent, at).value_or(0);
    std::mt19937_64 random(1);
    std::vector<std::int64_t> values;
    for (std::uint64_t place = 0; place < places; ++place) {
        for (std::size_t axis = 0; axis < at.size(); ++axis) {
            const std::uint64_t drawn = random();
            const std::int64_t last = std::max<std::int64_t>(call_.extents[axis] - 1, 0);
            at[axis] =
                place < at_ends ? (drawn % 2 == 0 ? 0 : last) : std::int64_t(drawn % std::uint64_t(last + 1));
        }
        const std::optional<std::int64_t> value = whole_at(call_, index, at);
        values.push_back(value && *value >= 0 && *value < end ? *value : -1);
    }
    return values;
}

const std::vector<Alternative>& OtherIndices::of(int index, const AxisSet& fixed, int extent) {
    const auto [found, is_new] = found_.try_emplace({index, fixed.to_ulong(), extent});
    if (!is_new) return found->second;
    std::vector<Alternative> others = indices_like(build_, program_, index, fixed, extent);
    std::ranges::stable_sort(others, {}, &Alternative::bits);
    std::set<std::vector<std::int64_t>> told{sampled(index, extent)};
    for (const Alternative& other : others) {
        std::vector<std::int64_t> values = sampled(other.node, extent);
        const bool is_nowhere = std::ranges::count(values, -1) == std::ssize(values);
        if (!is_nowhere && told.insert(std::move(values)).second) found->second.push_back(other);
    }
    return found->second;
}

std::vector<Alternative> multiples_in_block(ProgramBuilder& build, const Program& program, int index) {
    std::vector<Alternative> all;
    const int along = program.axis_of(index);
    if (along < 0 || program.axes[std::size_t(along)].block < 0) return all;
    const int block = program.axes[std::size_t(along)].block;
    const int first = build.of_two(ProgramOp::times, build.block_of(along), block);
    for (const std::int64_t by : {2, 3, 4}) {
        const int within = build.of_two(ProgramOp::times, build.whole(by), build.within_block(along));
        const int is_inside = build.of_two(ProgramOp::less, within, block);
        all.push_back(
            {build.chosen(build.of_two(ProgramOp::plus, first, within), is_inside, build.whole(-1)), 2});
    }
    return all;
}

std::vector<Alternative> indices_off_by_extents(ProgramBuilder& build, const Program& program, int index) {
    std::vector<Alternative> all;
    for (std::size_t i = 0; i < program.axes.size(); ++i) {
        for (std::size_t k = 0; k < program.axes.size(); ++k) {
            const int from = program.axes[i].extent;
            const int less = program.axes[k].extent;
            if (from == less || program.axes[i].block < 0 || program.axes[k].block < 0) continue;
            all.push_back(
                {build.of_two(ProgramOp::minus, build.of_two(ProgramOp::plus, index, from), less), 6});
        }
    }
    return all;
}

namespace {

/// Rows by columns of the same tile; what lies beyond the array is 0.
int transposed_tile(ProgramBuilder& build, const Program& program, ProgramNode read,
                    const std::array<int, 2>& axes) {
    const std::size_t rows = read.list.size() - 2;
    int is_inside = -1;
    for (std::size_t k = 0; k < 2; ++k) {
        const ProgramAxis& of = program.axes[std::size_t(axes[k])];
        const int first = build.of_two(ProgramOp::times, build.block_of(axes[k]), of.block);
        read.list[rows + k] = build.of_two(ProgramOp::plus, first, build.within_block(axes[1 - k]));
        is_inside = build.both(is_inside, build.of_two(ProgramOp::less, read.list[rows + k], of.extent));
    }
    return build.chosen(build.add(read), is_inside, build.real(0));
}

}  // namespace

std::vector<Alternative> tile_reads_like(ProgramBuilder& build, const Program& program,
                                         const ProgramNode& node) {
    std::vector<Alternative> all;
    if (node.list.size() < 2) return all;
    const std::size_t rows = node.list.size() - 2;
    const int along = program.axis_of(node.list[rows]);
    const int feature = program.axis_of(node.list[rows + 1]);
    if (along < 0 || feature < 0 || program.axes[std::size_t(along)].block < 0) return all;
    if (program.axes[std::size_t(feature)].block >= 0) {
        all.push_back({transposed_tile(build, program, node, {along, feature}), 2});
        return all;
    }
    const int block = program.axes[std::size_t(along)].block;
    // The next tile already, where there is one; it is filled up with zeros.
    const int extent = program.axes[std::size_t(along)].extent;
    ProgramNode next = node;
    next.list[rows] = build.of_two(ProgramOp::plus, build.axis(along), block);
    const int is_key = build.of_two(ProgramOp::less, next.list[rows], extent);
    const int of_next = build.chosen(build.add(next), is_key, build.real(0));
    const int last = build.of_two(ProgramOp::quotient, build.moved(extent, -1), block);
    const int has_next = build.of_two(ProgramOp::less, build.block_of(along), last);
    all.push_back({build.chosen(of_next, has_next, build.add(node)), 3});
    const int cols = program.axes[std::size_t(feature)].extent;
    const int first = build.of_two(ProgramOp::times, build.block_of(along), block);
    const int row = build.within_block(along);
    const int col = build.axis(feature);
    const auto at = [&](int address, double bits) {
        ProgramNode read = node;
        read.list[rows] =
            build.of_two(ProgramOp::plus, first, build.of_two(ProgramOp::quotient, address, cols));
        read.list[rows + 1] = build.of_two(ProgramOp::rest, address, cols);
        // A tile is filled up with zeros.
        const int is_inside =
            build.of_two(ProgramOp::less, read.list[rows], program.axes[std::size_t(along)].extent);
        all.push_back({build.chosen(build.add(read), is_inside, build.real(0)), bits});
    };
    const auto linear = [&](int outer, int by, int inner) {
        return build.of_two(ProgramOp::plus, build.of_two(ProgramOp::times, outer, by), inner);
    };
    // Squares of rows and columns, each transposed in its place.
    for (const std::int64_t size : {8, 16, 32}) {
        const int n = build.whole(size);
        const auto corner = [&](int x) {
            return build.of_two(ProgramOp::times, build.of_two(ProgramOp::quotient, x, n), n);
        };
        const auto exchanged = [&](int own, int other) {
            return build.of_two(ProgramOp::plus, corner(own), build.of_two(ProgramOp::rest, other, n));
        };
        ProgramNode read = node;
        read.list[rows] = build.of_two(ProgramOp::plus, first, exchanged(row, col));
        read.list[rows + 1] = exchanged(col, row);
        const int is_inside =
            build.of_two(ProgramOp::less, read.list[rows], program.axes[std::size_t(along)].extent);
        all.push_back({build.chosen(build.add(read), is_inside, build.real(0)), 3});
    }
    at(linear(col, block, row), 2);
    at(linear(col, cols, row), 2);
    at(linear(row, block, col), 2);
    for (const std::int64_t by : {1, -1, 8, -8}) at(linear(row, build.moved(cols, by), col), 2);
    return all;
}

}  // namespace tilescope
