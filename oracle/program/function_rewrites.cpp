// What may stand in the place of a function, and of factors around it and in it.

#include <array>
#include <numbers>

#include "oracle/program/node_rewrites.h"

namespace tilescope {

std::vector<NodeRewrites::Tried> NodeRewrites::of_call(const ProgramNode& node) {
    std::vector<Tried> all{{node.of[0], "function"}};
    add_outside_function(node, node.of[0], all);
    for (const ProgramFunction function : functions_like(ProgramFunction(node.what))) {
        if (int(function) == node.what) continue;
        ProgramNode other = node;
        other.what = int(function);
        all.push_back({add(other), "function"});
    }
    for (const double factor : factors()) {
        ProgramNode other = node;
        other.of[0] = of_two(ProgramOp::times, node.of[0], real(factor));
        const int scaled = add(other);
        all.push_back({scaled, "factor", 3});
        // In another unit.
        all.push_back({of_two(ProgramOp::quotient, scaled, real(factor)), "factor", 3});
    }
    // Kernels take the exponential of either base, and round what it is of.
    const bool is_natural = node.what == int(ProgramFunction::exp);
    if (!is_natural && node.what != int(ProgramFunction::exp2)) return all;
    const std::array<double, 2> units = {std::numbers::log2e, std::numbers::ln2};
    for (const DtypeInfo& info : narrow_dtypes()) {
        const int in_other = of_two(ProgramOp::times, node.of[0], real(units[is_natural ? 0 : 1]));
        ProgramNode other = node;
        other.of[0] =
            of_two(ProgramOp::times, build_.cast(info.dtype, in_other), real(units[is_natural ? 1 : 0]));
        all.push_back({add(other), "type", 3});
    }
    return all;
}

int NodeRewrites::function_in(int number) const {
    const ProgramNode& node = program_.node(number);
    const bool is_product = node.op == ProgramOp::times || node.op == ProgramOp::quotient;
    if (node.op == ProgramOp::call) return number;
    if (!is_product) return -1;
    const int left = function_in(node.of[0]);
    return left >= 0 || node.op == ProgramOp::quotient ? left : function_in(node.of[1]);
}

void NodeRewrites::add_inside_function(const ProgramNode& node, std::vector<Tried>& all) {
    const bool divides = node.op == ProgramOp::quotient;
    for (const std::size_t factor : {std::size_t{1}, std::size_t{0}}) {
        if (divides && factor == 0) continue;
        const int rest = node.of[1 - factor];
        const int call = function_in(rest);
        if (call < 0 || function_in(node.of[factor]) >= 0) continue;
        ProgramNode inside = copy_of(call);
        inside.of[0] = of_two(node.op, inside.of[0], node.of[factor]);
        all.push_back({build_.with_node(rest, call, add(inside)), "factor", 1});
    }
}

void NodeRewrites::add_outside_function(const ProgramNode& call, int product, std::vector<Tried>& all) {
    const ProgramNode node = copy_of(product);
    if (node.op != ProgramOp::times && node.op != ProgramOp::quotient) return;
    for (const std::size_t factor : {std::size_t{0}, std::size_t{1}}) {
        if (node.op == ProgramOp::quotient && factor == 0) continue;
        ProgramNode without = call;
        without.of[0] = build_.with_node(call.of[0], product, node.of[1 - factor]);
        all.push_back({of_two(node.op, add(without), node.of[factor]), "factor", 1});
    }
    add_outside_function(call, node.of[0], all);
    if (node.op == ProgramOp::times) add_outside_function(call, node.of[1], all);
}

}  // namespace tilescope
