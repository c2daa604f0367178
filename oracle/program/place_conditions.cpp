#include "oracle/program/place_conditions.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "oracle/program/build.h"

namespace tilescope {

std::vector<int> axes_of(const Program& program, int stage) {
    std::vector<int> axes;
    for (const int index : program.array(stage).indices) axes.push_back(program.axis_of(index));
    return axes;
}

namespace {

class TakingOut {
 public:
    TakingOut(Program& program, std::span<const int> axes)
        : program_(program), axes_(axes.begin(), axes.end()) {}

    std::optional<FormulaWhere> of(int declared, int becomes) {
        const std::optional<int> value = without(declared, becomes);
        if (!value || condition_ < 0) return std::nullopt;
        return FormulaWhere{*value, condition_};
    }

 private:
    std::optional<int> without(int declared, int becomes) {
        if (are_alike(program_, declared, becomes)) return becomes;
        if (declared < 0 || becomes < 0) return std::nullopt;
        const ProgramNode one = program_.node(declared);
        ProgramNode other = program_.node(becomes);
        if (other.op == ProgramOp::chosen) {
            for (const auto& [value, otherwise] : {std::pair(0, 2), std::pair(2, 0)}) {
                const bool is_there = are_alike(program_, declared, other.of[std::size_t(otherwise)]) &&
                                      is_of_place(other.of[1]);
                // Where a number stands is all that such a formula says.
                if (!is_there || is_number(other.of[std::size_t(value)])) continue;
                const int condition = value == 0
                                          ? other.of[1]
                                          : ProgramBuilder(program_).add(
                                                {.op = ProgramOp::opposite, .of = {other.of[1], -1, -1}});
                if (condition_ >= 0 && !are_alike(program_, condition_, condition)) return std::nullopt;
                condition_ = condition;
                return other.of[std::size_t(value)];
            }
        }
        if (one.op != other.op || one.what != other.what || one.list != other.list ||
            one.op == ProgramOp::number)
            return std::nullopt;
        // Within a sum an index is that of a term.
        const std::vector<int> outside = axes_;
        if (is_reduction(one.op))
            std::erase_if(axes_,
                          [&](int axis) { return std::ranges::find(one.list, axis) != one.list.end(); });
        bool is_all = true;
        for (std::size_t i = 0; i < one.of.size() && is_all; ++i) {
            const std::optional<int> operand = without(one.of[i], other.of[i]);
            is_all = operand.has_value();
            if (operand) other.of[i] = *operand;
        }
        axes_ = outside;
        if (!is_all) return std::nullopt;
        return ProgramBuilder(program_).add(std::move(other));
    }

    bool is_number(int number) const {
        const ProgramNode& node = program_.node(number);
        return node.op == ProgramOp::number || (node.op == ProgramOp::negative && is_number(node.of[0]));
    }

    /// Whether it is computed from indices of the place, and nothing else.
    bool is_of_place(int number) const {
        const ProgramNode& node = program_.node(number);
        if (node.op == ProgramOp::axis) return std::ranges::find(axes_, node.what) != axes_.end();
        if (node.op == ProgramOp::read || node.op == ProgramOp::call || is_reduction(node.op)) return false;
        return std::ranges::all_of(node.of, [&](int operand) { return operand < 0 || is_of_place(operand); });
    }

    Program& program_;
    std::vector<int> axes_;
    int condition_ = -1;
};

}  // namespace

std::optional<FormulaWhere> taken_out(Program& program, int declared, int becomes,
                                      std::span<const int> axes) {
    return TakingOut(program, axes).of(declared, becomes);
}

namespace {

void collect_nodes(const Program& program, int number, std::set<int>& nodes) {
    if (!nodes.insert(number).second) return;
    for (const int of : program.node(number).of)
        if (of >= 0) collect_nodes(program, of, nodes);
}

int within_blocks_but(Program& program, const std::set<int>& declared, int number) {
    if (declared.contains(number)) return number;
    ProgramBuilder build(program);
    ProgramNode node = program.node(number);
    if (is_comparison(node.op)) {
        const int along = program.axis_of(node.of[0]);
        const bool is_cut = along >= 0 && program.axes[std::size_t(along)].block >= 0;
        if (!is_cut || program.node(node.of[1]).op != ProgramOp::number) return number;
        return build.of_two(node.op, build.within_block(along), node.of[1]);
    }
    bool is_other = false;
    for (int& of : node.of) {
        const int instead = of < 0 ? of : within_blocks_but(program, declared, of);
        is_other = is_other || instead != of;
        of = instead;
    }
    return is_other ? build.add(std::move(node)) : number;
}

}  // namespace

int within_blocks(Program& program, int declared, int becomes) {
    std::set<int> nodes;
    collect_nodes(program, declared, nodes);
    return within_blocks_but(program, nodes, becomes);
}

int where_they_differ(Program& program, int declared, int becomes, int condition) {
    const ProgramNode one = program.node(declared);
    ProgramNode other = program.node(becomes);
    int differing = -1;
    int differences = one.op == other.op && one.what == other.what && one.list == other.list ? 0 : 2;
    for (std::size_t i = 0; i < one.of.size() && differences < 2; ++i) {
        if (one.of[i] == other.of[i]) continue;
        const bool are_both = one.of[i] >= 0 && other.of[i] >= 0;
        if (are_both && are_alike(program, one.of[i], other.of[i])) continue;
        differences += are_both ? 1 : 2;
        differing = int(i);
    }
    const bool is_condition = one.op == ProgramOp::chosen && differing == 1;
    if (differences != 1 || is_reduction(one.op) || is_condition)
        return ProgramBuilder(program).chosen(becomes, condition, declared);
    const auto i = std::size_t(differing);
    other.of[i] = where_they_differ(program, one.of[i], other.of[i], condition);
    return ProgramBuilder(program).add(std::move(other));
}

}  // namespace tilescope
