#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dump/schema.h"
#include "dump/schema/dtype.h"

namespace tilescope {

// What a kernel computes, as data: axes, inputs, and stages of formulas. oracle/PROGRAMS.md has the language.

/// Where something stands in the text of a program; both count from 1.
struct ProgramPlace {
    int line = 1;
    int column = 1;
};

/// What a node of a formula does with its operands.
enum class ProgramOp : std::uint8_t {
    number,
    size,  ///< an extent of the call, or another whole number of it
    axis,  ///< the index along it
    read,  ///< an element of an input or of a stage
    plus,
    minus,
    times,
    quotient,
    rest,
    exclusive,  ///< x ^ y, of whole numbers from 0 on: addresses are swizzled by it. Of a real x: of its bits as a float32
    masked,  ///< x & y, of the same
    smaller,
    larger,
    between,  ///< any number from the one to the other: which one is the kernel's own choice
    less,
    at_most,
    more,
    at_least,
    equal,
    unequal,
    both,
    either,
    opposite,
    negative,
    chosen,  ///< `x where condition else y`: x, condition, y
    call,    ///< a function of one number
    cast,
    sum,  ///< of all along some axes, as the two below
    most,
    least,
};

/// Functions of one real number.
enum class ProgramFunction : std::uint8_t {
    exp,
    exp2,
    log,
    log2,
    sqrt,
    rsqrt,
    tanh,
    sigmoid,
    silu,
    gelu,
    relu,
    softplus,
    abs,
    round,  ///< to the nearest whole number, of two the even one
    trunc,  ///< toward zero
};
std::string_view program_function_name(ProgramFunction function);

/// Which state of a stage that goes over an axis. Where the text does not say it, it is that after the block in the loop of
/// the stage, that before it in its own formula, and the last one elsewhere.
enum class ProgramState : std::uint8_t { unsaid, before, after, last };

/// A node of a formula. Nodes are numbered as in Program::nodes, operands before what is done with them.
struct ProgramNode {
    ProgramOp op = ProgramOp::number;
    /// Operands; -1: none. Of a read of a state that has one: the index of its axis in whose block it is.
    std::array<int, 3> of = {-1, -1, -1};
    double number = 0;
    int what = -1;  ///< number of the size, the axis or the array, a ProgramFunction, or a Dtype
    std::vector<int>
        list{};  ///< read: a node for each index, or for the number of the element; sum, most, least: axes
    ProgramState state = ProgramState::unsaid;  ///< read: of a stage that goes over an axis
    bool says_state = false;                    ///< the text has it
    bool is_flat = false;   ///< read: of an input by the one number of its element, row-major
    bool is_whole = false;  ///< computed as whole numbers are: indices, bounds
    Accumulation accumulation = Accumulation::fma_f32;  ///< of a sum
    ProgramPlace place{};
};

struct ProgramAxis {
    std::string name{};
    int extent = -1;  ///< node, of sizes and numbers
    int block = -1;   ///< node; -1: it is not cut
    ProgramPlace place{};
};

/// An input, or a stage: what the kernel computes from inputs and from stages before it.
struct ProgramArray {
    std::string name{};
    bool is_stage = false;
    Dtype dtype = Dtype::f32;
    std::vector<int> indices{};  ///< nodes; of a stage each is an axis
    /// Of a stage that carries a state from block to block: the axis of these blocks; -1: none.
    int over = -1;
    bool backwards = false;  ///< from its last block to its first
    int start = -1;          ///< node: what the state is before the first block
    int value = -1;          ///< node
    ProgramPlace place{};
};

/// Stages that go through the blocks of an axis together, one block after the other; each once where `axis` is -1.
struct ProgramLoop {
    int axis = -1;
    bool backwards = false;
    int first = 0;  ///< array
    int end = 0;    ///< one behind the last
};

struct Program {
    std::vector<ProgramAxis> axes;
    std::vector<std::string> sizes;
    std::vector<ProgramArray> arrays;  ///< inputs, and then stages
    std::vector<int> outputs;          ///< stages
    std::vector<ProgramLoop> loops;    ///< of all stages, in their order
    std::vector<ProgramNode> nodes;

    const ProgramNode& node(int number) const { return nodes[static_cast<std::size_t>(number)]; }
    const ProgramArray& array(int number) const { return arrays[static_cast<std::size_t>(number)]; }
    /// The axis that is this node and nothing else; -1: it is none.
    int axis_of(int number) const { return node(number).op == ProgramOp::axis ? node(number).what : -1; }
    int array_named(std::string_view name) const;  ///< -1: none
    /// Number of the loop of a stage.
    int loop_of(int stage) const;
};

/// What a text may have, so that nobody is kept busy by one.
struct ProgramLimits {
    static constexpr std::size_t text_bytes = 65536;
    static constexpr std::size_t stages = 64;
    static constexpr std::size_t inputs = 64;
    static constexpr std::size_t axes = 16;
    static constexpr int depth = 64;            ///< of parentheses
    static constexpr int formula_depth = 1000;  ///< of operations on what others leave, as in x + x + x
};

/// The program that a text declares.
/// Errors: Error with line and column, what is wrong there and what to do.
Program parse_program(std::string_view text);

/// The text with another formula of a stage: `declaration` is STAGE=FORMULA, or STAGE:DTYPE=FORMULA. A state starts from what it did,
/// unless the formula says `from`.
/// Errors: Error naming `where`, with the column in the declaration, for what is none, or makes no program of the text.
std::string with_formula(std::string_view text, std::string_view declaration, const std::string& where);

/// A formula of it as the text has it: "acc * exp(m.before - m) + sum(j: p * v)".
std::string program_text(const Program& program, int node);

}  // namespace tilescope
