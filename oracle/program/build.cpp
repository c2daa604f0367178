#include "oracle/program/build.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

namespace tilescope {

bool are_alike(const Program& program, int one, int other) {
    if (one == other) return true;
    if (one < 0 || other < 0) return false;
    const ProgramNode& x = program.node(one);
    const ProgramNode& y = program.node(other);
    // Indices of a read are formulas themselves; of a sum they are axes.
    const bool is_read = x.op == ProgramOp::read;
    const bool are_same = x.op == y.op && x.number == y.number && x.what == y.what && x.state == y.state &&
                          x.is_flat == y.is_flat && x.is_whole == y.is_whole &&
                          x.accumulation == y.accumulation && x.list.size() == y.list.size() &&
                          (is_read || x.list == y.list);
    if (!are_same) return false;
    for (std::size_t i = 0; i < x.of.size(); ++i)
        if (!are_alike(program, x.of[i], y.of[i])) return false;
    for (std::size_t i = 0; is_read && i < x.list.size(); ++i)
        if (!are_alike(program, x.list[i], y.list[i])) return false;
    return true;
}

bool is_reduction(ProgramOp op) {
    return op == ProgramOp::sum || op == ProgramOp::most || op == ProgramOp::least;
}

bool is_comparison(ProgramOp op) {
    return op >= ProgramOp::less && op <= ProgramOp::unequal;
}

bool is_infinite(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::negative) return is_infinite(program, node.of[0]);
    return node.op == ProgramOp::number && std::isinf(node.number);
}

bool is_number(const Program& program, int number, double value) {
    const ProgramNode& node = program.node(number);
    return node.op == ProgramOp::number && node.number == value;
}

namespace {

/// A real number that is written out, with its sign.
std::optional<double> number_of(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    if (node.is_whole) return std::nullopt;
    if (node.op == ProgramOp::number) return node.number;
    if (node.op != ProgramOp::negative) return std::nullopt;
    const std::optional<double> without_sign = number_of(program, node.of[0]);
    return without_sign ? std::optional(-*without_sign) : std::nullopt;
}

}  // namespace

int ProgramBuilder::add(ProgramNode node) {
    program_.nodes.push_back(std::move(node));
    return int(program_.nodes.size()) - 1;
}

int ProgramBuilder::whole(std::int64_t number) {
    if (number < 0) return add({.op = ProgramOp::negative, .of = {whole(-number), -1, -1}, .is_whole = true});
    return add({.op = ProgramOp::number, .number = double(number), .is_whole = true});
}

int ProgramBuilder::real(double number) {
    return add({.op = ProgramOp::number, .number = number});
}

int ProgramBuilder::axis(int number) {
    return add({.op = ProgramOp::axis, .what = number, .is_whole = true});
}

int ProgramBuilder::of_two(ProgramOp op, int left, int right) {
    if (op == ProgramOp::smaller || op == ProgramOp::larger) {
        const std::optional<double> one = number_of(program_, left);
        const std::optional<double> other = number_of(program_, right);
        if (one && other)
            return real(op == ProgramOp::smaller ? std::min(*one, *other) : std::max(*one, *other));
    }
    const bool is_condition = op >= ProgramOp::less && op <= ProgramOp::opposite;
    const bool is_whole = program_.node(left).is_whole && program_.node(right).is_whole && !is_condition;
    return add({.op = op, .of = {left, right, -1}, .is_whole = is_whole});
}

int ProgramBuilder::moved(int index, std::int64_t by) {
    if (by == 0) return index;
    const ProgramNode sum = program_.node(index);
    if (sum.op == ProgramOp::number) return whole(std::int64_t(sum.number) + by);
    const bool is_moved = sum.op == ProgramOp::plus || sum.op == ProgramOp::minus;
    if (is_moved && program_.node(sum.of[1]).op == ProgramOp::number) {
        const auto number = std::int64_t(program_.node(sum.of[1]).number);
        return moved(sum.of[0], by + (sum.op == ProgramOp::plus ? number : -number));
    }
    return of_two(by < 0 ? ProgramOp::minus : ProgramOp::plus, index, whole(std::abs(by)));
}

int ProgramBuilder::cast(Dtype dtype, int of) {
    return add({.op = ProgramOp::cast, .of = {of, -1, -1}, .what = int(dtype)});
}

int ProgramBuilder::extent_of(int array, std::size_t dimension, int index) {
    const int along = program_.axis_of(program_.array(array).indices[dimension]);
    if (along >= 0) return program_.axes[std::size_t(along)].extent;
    const ProgramNode node = program_.node(index);
    const int divided = node.op == ProgramOp::quotient ? program_.axis_of(node.of[0]) : -1;
    if (divided < 0) return -1;
    const ProgramAxis along_it = program_.axes[std::size_t(divided)];
    // Of what is cut into blocks the last one need not be full.
    const int extent = along_it.block < 0 ? along_it.extent
                                          : of_two(ProgramOp::plus, along_it.extent, moved(node.of[1], -1));
    return of_two(ProgramOp::quotient, extent, node.of[1]);
}

int ProgramBuilder::block_of(int number) {
    return of_two(ProgramOp::quotient, axis(number), program_.axes[std::size_t(number)].block);
}

int ProgramBuilder::within_block(int number) {
    return of_two(ProgramOp::rest, axis(number), program_.axes[std::size_t(number)].block);
}

int ProgramBuilder::chosen(int value, int condition, int otherwise) {
    const bool is_whole = program_.node(value).is_whole && program_.node(otherwise).is_whole;
    return add({.op = ProgramOp::chosen, .of = {value, condition, otherwise}, .is_whole = is_whole});
}

int ProgramBuilder::both(int left, int right) {
    if (left < 0 || right < 0) return left < 0 ? right : left;
    return of_two(ProgramOp::both, left, right);
}

namespace {

/// What joins two whole numbers, in both languages; number: nothing of the kind.
constexpr ProgramOp joining(Op op) {
    switch (op) {
        case Op::plus:
            return ProgramOp::plus;
        case Op::minus:
            return ProgramOp::minus;
        case Op::times:
            return ProgramOp::times;
        case Op::quotient:
            return ProgramOp::quotient;
        case Op::rest:
            return ProgramOp::rest;
        case Op::exclusive:
            return ProgramOp::exclusive;
        case Op::at_most:
            return ProgramOp::smaller;
        case Op::at_least:
            return ProgramOp::larger;
        default:
            return ProgramOp::number;
    }
}

}  // namespace

int ProgramBuilder::changed(const Expr::Node& by, int x) {
    const auto with = [&](ProgramOp op, int of, std::int64_t number) {
        const bool is_itself = number == 1 && (op == ProgramOp::times || op == ProgramOp::quotient);
        return is_itself ? of : of_two(op, of, whole(number));
    };
    switch (by.op) {
        case Op::multiple:
            return with(ProgramOp::times, with(ProgramOp::quotient, x, by.n), by.n);
        case Op::if_bit:
            return with(ProgramOp::times, with(ProgramOp::rest, with(ProgramOp::quotient, x, by.n), 2), by.k);
        case Op::reversed: {
            const int first = with(ProgramOp::times, with(ProgramOp::quotient, x, by.n), by.n);
            return of_two(ProgramOp::minus, moved(first, by.n - 1), with(ProgramOp::rest, x, by.n));
        }
        case Op::permuted: {
            const int first = with(ProgramOp::times, with(ProgramOp::quotient, x, by.n), by.n);
            return of_two(ProgramOp::plus, first,
                          with(ProgramOp::rest, with(ProgramOp::times, x, by.k), by.n));
        }
        case Op::exchanged_bits: {
            // What one of both has more than the other moves there.
            const std::int64_t low = std::int64_t(1) << std::min(by.n, by.k);
            const std::int64_t high = std::int64_t(1) << std::max(by.n, by.k);
            const int low_bit = with(ProgramOp::rest, with(ProgramOp::quotient, x, low), 2);
            const int high_bit = with(ProgramOp::rest, with(ProgramOp::quotient, x, high), 2);
            const int more = of_two(ProgramOp::minus, low_bit, high_bit);
            return of_two(ProgramOp::plus, x, with(ProgramOp::times, more, high - low));
        }
        case Op::rounded_up:
            return with(ProgramOp::times, with(ProgramOp::quotient, moved(x, by.n - 1), by.n), by.n);
        default:
            return -1;
    }
}

int ProgramBuilder::index(const Expr& expr, const std::function<int(Coordinate)>& node_of) {
    std::vector<int> stack;
    for (const Expr::Node& node : expr.nodes()) {
        if (node.op == Op::number) {
            stack.push_back(whole(node.n));
        } else if (node.op == Op::coordinate) {
            stack.push_back(node_of(node.coordinate));
        } else if (const ProgramOp op = joining(node.op); op != ProgramOp::number) {
            const int right = stack.back();
            stack.pop_back();
            const ProgramNode number = program_.node(right);
            const bool is_negative = number.op == ProgramOp::negative && op == ProgramOp::plus;
            stack.back() = is_negative ? of_two(ProgramOp::minus, stack.back(), number.of[0])
                                       : of_two(op, stack.back(), right);
        } else {
            stack.back() = changed(node, stack.back());
        }
        if (stack.back() < 0) return -1;
    }
    return stack.back();
}

namespace {

/// Of a comparison of two numbers; nullopt: it is none.
std::optional<bool> constant_truth(const Program& program, int condition) {
    const ProgramNode& node = program.node(condition);
    const auto is_number = [&](int of) { return of >= 0 && program.node(of).op == ProgramOp::number; };
    if (node.op != ProgramOp::equal || !is_number(node.of[0]) || !is_number(node.of[1])) return std::nullopt;
    return program.node(node.of[0]).number == program.node(node.of[1]).number;
}

}  // namespace

int ProgramBuilder::with_node(int formula, int node, int instead) {
    if (formula == node) return instead;
    ProgramNode copy = program_.node(formula);
    bool is_other = false;
    for (int& operand : copy.of) {
        if (operand < 0) continue;
        const int other = with_node(operand, node, instead);
        is_other = is_other || other != operand;
        operand = other;
    }
    if (!is_other) return formula;
    // What always holds is no condition, and what never holds is no choice.
    if (copy.op == ProgramOp::chosen) {
        if (const std::optional<bool> truth = constant_truth(program_, copy.of[1]))
            return copy.of[*truth ? 0 : 2];
    }
    if (copy.op == ProgramOp::both || copy.op == ProgramOp::either) {
        for (const std::size_t side : {0, 1}) {
            const std::optional<bool> truth = constant_truth(program_, copy.of[side]);
            if (truth) return copy.of[*truth == (copy.op == ProgramOp::both) ? 1 - side : side];
        }
    }
    // What is 0 is not added, what is 1 is not multiplied with, and 0 times a number is 0.
    const auto is = [&](int operand, double number) {
        const ProgramNode& of = program_.node(operand);
        return of.op == ProgramOp::number && !of.is_whole && of.number == number;
    };
    const auto is_finite = [&](int operand) {
        const ProgramNode& of = program_.node(operand);
        return of.is_whole || (of.op == ProgramOp::number && std::isfinite(of.number));
    };
    if (copy.op == ProgramOp::times && is(copy.of[0], 0) && is_finite(copy.of[1])) return copy.of[0];
    if (copy.op == ProgramOp::times && is(copy.of[1], 0) && is_finite(copy.of[0])) return copy.of[1];
    if (copy.op == ProgramOp::quotient && is(copy.of[0], 0) && is_finite(copy.of[1])) return copy.of[0];
    const bool adds = copy.op == ProgramOp::plus || copy.op == ProgramOp::minus;
    const bool multiplies = copy.op == ProgramOp::times || copy.op == ProgramOp::quotient;
    if ((adds && is(copy.of[1], 0)) || (multiplies && is(copy.of[1], 1))) return copy.of[0];
    if ((copy.op == ProgramOp::plus && is(copy.of[0], 0)) ||
        (copy.op == ProgramOp::times && is(copy.of[0], 1)))
        return copy.of[1];
    return add(std::move(copy));
}

int ProgramBuilder::with_axes(int number, const std::function<int(int axis, int node)>& index_of) {
    ProgramNode node = program_.node(number);
    if (node.op == ProgramOp::axis) return index_of(node.what, number);
    const bool has_own = is_reduction(node.op);
    const auto of_others = [&](int axis, int at) {
        return std::ranges::find(node.list, axis) == node.list.end() ? index_of(axis, at) : at;
    };
    for (int& operand : node.of) {
        if (operand < 0) continue;
        operand = has_own ? with_axes(operand, of_others) : with_axes(operand, index_of);
    }
    if (node.op == ProgramOp::read) {
        for (int& index : node.list) index = with_axes(index, index_of);
    }
    return add(std::move(node));
}

int ProgramBuilder::at_index(int formula, int of, int index) {
    return with_axes(formula, [=](int axis, int node) { return axis == of ? index : node; });
}

int ProgramBuilder::at_indices(int formula, const std::array<int, 2>& of, const std::array<int, 2>& indices) {
    return with_axes(formula, [=](int axis, int node) {
        return axis == of[0] ? indices[0] : axis == of[1] ? indices[1] : node;
    });
}

int ProgramBuilder::with_index(int formula, const std::vector<int>& reads, int index, int instead) {
    const auto is_it = [&](int other) { return are_alike(program_, index, other); };
    for (const int read : reads) {
        ProgramNode node = program_.node(read);
        if (node.is_flat || std::ranges::none_of(node.list, is_it)) continue;
        std::ranges::replace_if(node.list, is_it, instead);
        formula = with_node(formula, read, add(std::move(node)));
    }
    return formula;
}

int ProgramBuilder::with_axes_exchanged(int formula, int one, int other) {
    return with_axes(formula, [=, this](int number, int node) {
        return number == one ? axis(other) : number == other ? axis(one) : node;
    });
}

}  // namespace tilescope
