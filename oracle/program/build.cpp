#include "oracle/program/build.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace tilescope {

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
    const bool is_condition = op >= ProgramOp::less && op <= ProgramOp::opposite;
    const bool is_whole = program_.node(left).is_whole && program_.node(right).is_whole && !is_condition;
    return add({.op = op, .of = {left, right, -1}, .is_whole = is_whole});
}

int ProgramBuilder::moved(int index, std::int64_t by) {
    if (by == 0) return index;
    return of_two(by < 0 ? ProgramOp::minus : ProgramOp::plus, index, whole(std::abs(by)));
}

int ProgramBuilder::cast(Dtype dtype, int of) {
    return add({.op = ProgramOp::cast, .of = {of, -1, -1}, .what = int(dtype)});
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

int ProgramBuilder::index(const Expr& expr, const std::function<int(Coordinate)>& node_of) {
    std::vector<int> stack;
    const auto taken = [&] {
        const int last = stack.back();
        stack.pop_back();
        return last;
    };
    for (const Expr::Node& node : expr.nodes()) {
        const auto joins = [&](ProgramOp op) {
            const int right = taken();
            stack.back() = of_two(op, stack.back(), right);
            return true;
        };
        const auto by = [&](ProgramOp op, std::int64_t number) {
            stack.back() = of_two(op, stack.back(), whole(number));
        };
        switch (node.op) {
            case Op::number:
                stack.push_back(whole(node.n));
                break;
            case Op::coordinate:
                stack.push_back(node_of(node.coordinate));
                if (stack.back() < 0) return -1;
                break;
            case Op::plus:
                joins(ProgramOp::plus);
                break;
            case Op::minus:
                joins(ProgramOp::minus);
                break;
            case Op::times:
                joins(ProgramOp::times);
                break;
            case Op::quotient:
                joins(ProgramOp::quotient);
                break;
            case Op::rest:
                joins(ProgramOp::rest);
                break;
            case Op::exclusive:
                joins(ProgramOp::exclusive);
                break;
            case Op::at_most:
                joins(ProgramOp::smaller);
                break;
            case Op::at_least:
                joins(ProgramOp::larger);
                break;
            case Op::multiple:
                by(ProgramOp::quotient, node.n);
                by(ProgramOp::times, node.n);
                break;
            case Op::if_bit:
                by(ProgramOp::quotient, node.n);
                by(ProgramOp::rest, 2);
                by(ProgramOp::times, node.k);
                break;
            case Op::reversed: {
                const int x = stack.back();
                by(ProgramOp::quotient, node.n);
                by(ProgramOp::times, node.n);
                by(ProgramOp::plus, node.n - 1);
                stack.back() =
                    of_two(ProgramOp::minus, stack.back(), of_two(ProgramOp::rest, x, whole(node.n)));
                break;
            }
            case Op::permuted: {
                const int x = stack.back();
                by(ProgramOp::quotient, node.n);
                by(ProgramOp::times, node.n);
                const int turned =
                    of_two(ProgramOp::rest, of_two(ProgramOp::times, x, whole(node.k)), whole(node.n));
                stack.back() = of_two(ProgramOp::plus, stack.back(), turned);
                break;
            }
            default:
                return -1;
        }
    }
    return stack.back();
}

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
    // What is 0 is not added, and what is 1 is not multiplied with.
    const auto is = [&](int operand, double number) {
        const ProgramNode& of = program_.node(operand);
        return of.op == ProgramOp::number && !of.is_whole && of.number == number;
    };
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
    const bool has_own =
        node.op == ProgramOp::sum || node.op == ProgramOp::most || node.op == ProgramOp::least;
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

int ProgramBuilder::with_axes_exchanged(int formula, int one, int other) {
    return with_axes(formula, [=, this](int number, int node) {
        return number == one ? axis(other) : number == other ? axis(one) : node;
    });
}

}  // namespace tilescope
