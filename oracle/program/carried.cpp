#include "oracle/program/carried.h"

#include <algorithm>
#include <map>

#include "oracle/program/build.h"

namespace tilescope {

namespace {

int size_named(const Program& program, const std::string& name) {
    const auto found = std::ranges::find(program.sizes, name);
    return found == program.sizes.end() ? -1 : int(found - program.sizes.begin());
}

int axis_named(const Program& program, const std::string& name) {
    const auto found = std::ranges::find(program.axes, name, &ProgramAxis::name);
    return found == program.axes.end() ? -1 : int(found - program.axes.begin());
}

class Carrier {
 public:
    Carrier(const Program& from, Program& to) : from_(from), to_(to), build_(to) {
        for (const ProgramAxis& axis : from.axes) {
            const int there = axis_named(to, axis.name);
            if (there < 0) continue;
            pair(axis.extent, to.axes[std::size_t(there)].extent);
            pair(axis.block, to.axes[std::size_t(there)].block);
        }
        for (const ProgramArray& array : from.arrays) {
            const int there = to.array_named(array.name);
            if (there < 0) continue;
            pair(array.value, to.array(there).value);
            pair(array.start, to.array(there).start);
        }
    }

    bool has_failed() const { return has_failed_; }

    int carry(int number) {
        if (number < 0) return -1;
        const auto known = pairs_.find(number);
        if (known != pairs_.end()) return known->second;
        ProgramNode node = from_.node(number);
        node.what = there(node);
        has_failed_ = has_failed_ || (node.what < 0 && from_.node(number).what >= 0);
        for (int& operand : node.of) operand = carry(operand);
        const bool is_read = node.op == ProgramOp::read;
        for (int& one : node.list) {
            one = is_read ? carry(one) : axis_named(to_, from_.axes[std::size_t(one)].name);
            has_failed_ = has_failed_ || one < 0;
        }
        return build_.add(std::move(node));
    }

 private:
    /// The number that what a node names has there; -1: it is not there.
    int there(const ProgramNode& node) const {
        if (node.op == ProgramOp::size) return size_named(to_, from_.sizes[std::size_t(node.what)]);
        if (node.op == ProgramOp::axis) return axis_named(to_, from_.axes[std::size_t(node.what)].name);
        if (node.op == ProgramOp::read) return to_.array_named(from_.array(node.what).name);
        return node.what;
    }

    bool is_alike(const ProgramNode& one, const ProgramNode& other) const {
        return one.op == other.op && one.list.size() == other.list.size() && there(one) == other.what;
    }

    /// As far down as both are alike.
    void pair(int one, int other) {
        if (one < 0 || other < 0 || !is_alike(from_.node(one), to_.node(other)) ||
            !pairs_.emplace(one, other).second)
            return;
        const ProgramNode& of = from_.node(one);
        for (std::size_t i = 0; i < of.of.size(); ++i) pair(of.of[i], to_.node(other).of[i]);
        for (std::size_t i = 0; i < of.list.size() && of.op == ProgramOp::read; ++i)
            pair(of.list[i], to_.node(other).list[i]);
    }

    const Program& from_;
    Program& to_;
    ProgramBuilder build_;
    std::map<int, int> pairs_;
    bool has_failed_ = false;
};

}  // namespace

std::optional<CarriedMistake> carried(const Program& found_in, const ProgramMistake& mistake,
                                      const Program& declared) {
    CarriedMistake result{declared};
    const int made_in = declared.array_named(found_in.array(mistake.stage).name);
    result.stage = declared.array_named(found_in.array(mistake.seen_in).name);
    if (made_in < 0 || result.stage < 0) return std::nullopt;
    Carrier carrier(found_in, result.program);
    const int value = carrier.carry(mistake.value);
    for (const StageFormula& other : mistake.also) {
        const int stage = declared.array_named(found_in.array(other.stage).name);
        if (stage < 0) return std::nullopt;
        result.program.arrays[std::size_t(stage)].value = carrier.carry(other.value);
    }
    result.condition = carrier.carry(mistake.condition);
    result.store = mistake.store;
    if (result.store) {
        for (std::vector<int>* const nodes : {&result.store->indices, &result.store->extents})
            for (int& node : *nodes) node = carrier.carry(node);
        result.store->end = carrier.carry(result.store->end);
        int& behind = result.store->behind;
        if (behind >= 0 && (behind = axis_named(declared, found_in.axes[std::size_t(behind)].name)) < 0)
            return std::nullopt;
    }
    if (carrier.has_failed()) return std::nullopt;
    ProgramArray& array = result.program.arrays[std::size_t(made_in)];
    (mistake.is_start ? array.start : array.value) = value;
    array.dtype = mistake.dtype;
    return result;
}

}  // namespace tilescope
