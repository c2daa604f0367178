#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "dump/schema/program.h"
#include "oracle/describe/expr.h"

namespace tilescope {

/// Whether two formulas of a program compute the same in the same way.
bool are_alike(const Program& program, int one, int other);

/// Each node of a formula, with those of the indices that its reads have.
template <class See>
void for_each_node(const Program& program, int number, const See& see) {
    see(number);
    const ProgramNode& node = program.node(number);
    for (const int operand : node.of)
        if (operand >= 0) for_each_node(program, operand, see);
    if (node.op != ProgramOp::read) return;
    for (const int index : node.list) for_each_node(program, index, see);
}

/// A sum, a maximum or a minimum along axes.
bool is_reduction(ProgramOp op);
/// Of two numbers, which order they are in, or whether they are the same.
bool is_comparison(ProgramOp op);
/// A number that is, of either sign.
bool is_infinite(const Program& program, int number);
bool is_number(const Program& program, int number, double value);

/// Adds nodes to a program, whose formulas stay as they are.
class ProgramBuilder {
 public:
    explicit ProgramBuilder(Program& program) : program_(program) {}

    const Program& program() const { return program_; }
    int add(ProgramNode node);
    int whole(std::int64_t number);
    int real(double number);
    int axis(int number);
    int of_two(ProgramOp op, int left, int right);
    int moved(int index, std::int64_t by);
    int cast(Dtype dtype, int of);
    /// Number of the block that an axis is in; the index within it.
    int block_of(int axis);
    int within_block(int axis);
    /// How many indices a dimension of an array has, which is read at `index` there; -1: the program does not say it.
    int extent_of(int array, std::size_t dimension, int index);
    /// `value where condition else otherwise`.
    int chosen(int value, int condition, int otherwise);
    /// Both hold; of none, -1, it is the other one.
    int both(int left, int right);
    /// What an index does with its coordinate; -1: it is computed from another one.
    int index(const Expr& expr, const std::function<int(Coordinate)>& node_of);

    /// The formula with something else in the place of one of its nodes.
    int with_node(int formula, int node, int instead);
    /// The formula at another index of an axis: what is stored belongs there. Axes that sums go along are their own.
    int at_index(int formula, int of, int index);
    /// The same of two axes at once.
    int at_indices(int formula, const std::array<int, 2>& of, const std::array<int, 2>& indices);
    /// The formula with another index in the place of one, in these reads of it.
    int with_index(int formula, const std::vector<int>& reads, int index, int instead);
    int with_axes_exchanged(int formula, int one, int other);

 private:
    /// What an operation of an index makes of x by its own numbers; -1: the language has no words for it.
    int changed(const Expr::Node& by, int x);
    int with_axes(int number, const std::function<int(int axis, int node)>& index_of);

    Program& program_;
};

}  // namespace tilescope
