#include "dump/schema/program_scopes.h"

#include <algorithm>
#include <bitset>

#include "dump/schema/program_tokens.h"

namespace tilescope {

namespace {

using Axes = std::bitset<ProgramLimits::axes>;

/// Goes through the formulas of a stage and knows which axes have an index there.
class ScopeCheck {
 public:
    ScopeCheck(const Program& program, int stage)
        : program_(program), stage_(stage), array_(program.array(stage)), loops_(program.loops) {}

    void run() {
        Axes fixed;
        for (const int index : array_.indices) {
            const int axis = program_.axis_of(index);
            if (axis < 0)
                throw program_error(program_.node(index).place, "an index of a stage is no axis",
                                    "write the axes that " + array_.name + " has an element for");
            if (fixed[std::size_t(axis)])
                throw program_error(program_.node(index).place,
                                    array_.name + " has " + name_of(axis) + " twice", "leave one out");
            fixed.set(std::size_t(axis));
        }
        if (array_.over >= 0 && fixed[std::size_t(array_.over)])
            throw program_error(
                array_.place,
                array_.name + " has an element for each " + name_of(array_.over) + " and goes over it",
                "leave out one of them");
        if (array_.start >= 0) check(array_.start, fixed);
        at_start_ = false;
        if (array_.over >= 0) fixed.set(std::size_t(array_.over));
        check(array_.value, fixed);
    }

 private:
    const std::string& name_of(int axis) const { return program_.axes[std::size_t(axis)].name; }

    void check(int number, Axes fixed) {
        const ProgramNode& node = program_.node(number);
        switch (node.op) {
            case ProgramOp::axis:
                if (!fixed[std::size_t(node.what)])
                    throw program_error(
                        node.place, name_of(node.what) + " has no index here",
                        "add it to the indices of " + array_.name + ", or take a sum or a maximum along it");
                return;
            case ProgramOp::read:
                return check_read(node, fixed);
            case ProgramOp::sum:
            case ProgramOp::most:
            case ProgramOp::least:
                fixed = along(node, fixed);
                break;
            default:
                break;
        }
        for (const int operand : node.of) {
            if (operand >= 0) check(operand, fixed);
        }
    }

    Axes along(const ProgramNode& node, Axes fixed) {
        for (const int axis : node.list) {
            // All of it, whatever index it has outside. Of the axis of a loop there are not all yet.
            const bool is_of_loop =
                loops_[std::size_t(program_.loop_of(stage_))].axis == axis && axis != array_.over;
            if (fixed[std::size_t(axis)] && is_of_loop)
                throw program_error(
                    node.place, name_of(axis) + " goes from block to block here, and not all of it is there",
                    "declare a state over it, or take it in a stage behind the loop");
            fixed.set(std::size_t(axis));
        }
        return fixed;
    }

    void check_read(const ProgramNode& node, const Axes& fixed) {
        for (const int index : node.list) {
            try {
                check(index, fixed);
            } catch (const Error&) {
                // Indices that are left out stand elsewhere in the text.
                throw program_error(node.place,
                                    program_.array(node.what).name + " is read at " +
                                        program_text(program_, index) +
                                        ", an axis of which has no index here",
                                    "add it to the indices of " + array_.name +
                                        ", write other indices, or take a sum or a maximum along it");
            }
        }
        const ProgramArray& read = program_.array(node.what);
        const bool is_of_given_block = node.of[0] >= 0;
        if (is_of_given_block) check(node.of[0], fixed);
        const bool is_of_block = node.says_state && node.state != ProgramState::last && !is_of_given_block;
        if (node.says_state && (read.over < 0 || (is_of_block && !fixed[std::size_t(read.over)])))
            throw program_error(node.place, read.name + " has no such state here",
                                read.over < 0 ? "only stages that go over an axis have states"
                                              : "leave it out for the last one");
        if (!read.is_stage) return;
        const bool is_itself = node.what == stage_;
        if (is_itself && (read.over < 0 || at_start_))
            throw program_error(node.place, read.name + " is made of itself",
                                "write `over AXIS` behind its indices");
        const bool same_loop = program_.loop_of(node.what) == program_.loop_of(stage_);
        const bool is_of_all_blocks = is_of_given_block || node.state == ProgramState::last;
        if (same_loop && node.says_state && is_of_all_blocks)
            throw program_error(node.place,
                                is_of_given_block
                                    ? read.name + " is read in another block, in the loop that makes it"
                                    : read.name + " has no last state in its own loop",
                                "take it in a stage behind the loop");
        if (node.what > stage_ && !(node.state == ProgramState::before && same_loop))
            throw program_error(node.place, read.name + " is not computed yet",
                                "declare it before " + array_.name + ", or read it .before in the same loop");
        const int axis = loops_[std::size_t(program_.loop_of(stage_))].axis;
        if (!same_loop || axis < 0 || !has_axis(program_, read, axis)) return;
        for (std::size_t i = 0; i < read.indices.size(); ++i) {
            if (program_.axis_of(read.indices[i]) != axis || program_.axis_of(node.list[i]) == axis) continue;
            throw program_error(
                node.place,
                read.name + " is read in another block of " + name_of(axis) + ", in the loop that makes it",
                "declare a stage without " + name_of(axis) + " between them, or a state over it");
        }
    }

    const Program& program_;
    int stage_;
    const ProgramArray& array_;
    const std::vector<ProgramLoop>& loops_;
    bool at_start_ = true;
};

/// No axis has an index in an extent, in a block, or in a scalar.
void check_extents(const Program& program) {
    const auto check = [&](int number, const auto& self) -> void {
        if (number < 0) return;
        const ProgramNode& node = program.node(number);
        if (node.op == ProgramOp::axis)
            throw program_error(node.place, "an extent depends on an axis", "make it of sizes and numbers");
        for (const int operand : node.of) self(operand, self);
    };
    for (const ProgramAxis& axis : program.axes) {
        check(axis.extent, check);
        check(axis.block, check);
    }
}

}  // namespace

bool has_axis(const Program& program, const ProgramArray& array, int axis) {
    return std::ranges::any_of(array.indices, [&](int index) { return program.axis_of(index) == axis; });
}

namespace {

/// Whether a formula says that it takes the state of a block of this axis.
bool takes_block(const Program& program, int number, int axis) {
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::read && node.says_state && node.state != ProgramState::last &&
        program.array(node.what).over == axis)
        return true;
    return std::ranges::any_of(
        node.of, [&](int operand) { return operand >= 0 && takes_block(program, operand, axis); });
}

/// A stage with an element for each index of an axis goes through the blocks with states over it, where one of these
/// follows it, or where it says that it takes the state of a block.
std::vector<ProgramLoop> loops_of(const Program& program) {
    const int count = int(program.arrays.size());
    /// The state over `axis` that follows a stage; -1: none.
    const auto state_behind = [&](int stage, int axis) {
        for (int i = stage; i < count; ++i) {
            if (program.array(i).over == axis) return i;
            if (!has_axis(program, program.array(i), axis)) return -1;
        }
        return -1;
    };
    const auto way_of = [&](int stage, const ProgramLoop& before) -> ProgramLoop {
        const ProgramArray& array = program.array(stage);
        if (array.over >= 0) return {array.over, array.backwards, stage, stage};
        for (int axis = 0; axis < int(program.axes.size()); ++axis) {
            if (!has_axis(program, array, axis)) continue;
            if (const int state = state_behind(stage, axis); state >= 0)
                return {axis, program.array(state).backwards, stage, stage};
            if (axis == before.axis && takes_block(program, array.value, axis))
                return {axis, before.backwards, stage, stage};
        }
        return {-1, false, stage, stage};
    };
    std::vector<ProgramLoop> loops;
    for (int i = 0; i < count; ++i) {
        if (!program.array(i).is_stage) continue;
        const ProgramLoop way = way_of(i, loops.empty() ? ProgramLoop() : loops.back());
        const bool goes_on =
            !loops.empty() && loops.back().axis == way.axis && loops.back().backwards == way.backwards;
        if (!goes_on) loops.push_back(way);
        loops.back().end = i + 1;
    }
    return loops;
}

void settle_states(Program& program, int number, int stage) {
    ProgramNode& node = program.nodes[std::size_t(number)];
    if (node.op == ProgramOp::read && node.state == ProgramState::unsaid &&
        program.array(node.what).over >= 0) {
        const bool in_loop = program.loop_of(node.what) == program.loop_of(stage);
        node.state = node.what == stage ? ProgramState::before
                     : in_loop          ? ProgramState::after
                                        : ProgramState::last;
    }
    for (const int operand : node.of) {
        if (operand >= 0) settle_states(program, operand, stage);
    }
}

}  // namespace

int Program::loop_of(int stage) const {
    const auto loop =
        std::ranges::find_if(loops, [&](const ProgramLoop& l) { return l.first <= stage && stage < l.end; });
    return loop == loops.end() ? -1 : int(loop - loops.begin());
}

void settle_scopes(Program& program) {
    check_extents(program);
    program.loops = loops_of(program);
    for (int i = 0; i < int(program.arrays.size()); ++i) {
        const ProgramArray& array = program.array(i);
        if (!array.is_stage) continue;
        settle_states(program, array.value, i);
        if (array.start >= 0) settle_states(program, array.start, i);
        ScopeCheck(program, i).run();
    }
}

}  // namespace tilescope
