#include "oracle/causes/formula_names.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tilescope {

namespace {

/// Parts of two formulas that stand in each other's place; what is around them is the same.
struct ChangedPart {
    int was;
    int is;
};

void collect_changed(const Program& program, int was, int is, std::vector<ChangedPart>& changed) {
    if (was == is) return;
    const ProgramNode& one = program.node(was < 0 ? is : was);
    const ProgramNode& other = program.node(is < 0 ? was : is);
    const bool is_alike = was >= 0 && is >= 0 && one.op == other.op && one.what == other.what &&
                          one.op != ProgramOp::read && one.list == other.list && one.number == other.number &&
                          one.accumulation == other.accumulation;
    if (!is_alike) {
        changed.push_back({was, is});
        return;
    }
    for (std::size_t i = 0; i < one.of.size(); ++i) collect_changed(program, one.of[i], other.of[i], changed);
}

bool takes_axis(const Program& program, int number, std::string_view axis) {
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::axis) return program.axes[std::size_t(node.what)].name == axis;
    return std::ranges::any_of(
        node.of, [&](int operand) { return operand >= 0 && takes_axis(program, operand, axis); });
}

/// Of an input whose name begins so, with another index where that of the head stands, and nowhere else.
bool reads_other_head(const Program& program, const ChangedPart& part, std::string_view array) {
    if (part.was < 0 || part.is < 0) return false;
    const ProgramNode& was = program.node(part.was);
    const ProgramNode& is = program.node(part.is);
    const bool is_read = was.op == ProgramOp::read && is.op == ProgramOp::read && was.what == is.what &&
                         !is.is_flat && std::string_view(program.array(was.what).name).starts_with(array);
    if (!is_read) return false;
    for (std::size_t i = 0; i < was.list.size(); ++i) {
        if (was.list[i] != is.list[i] && !takes_axis(program, was.list[i], "h")) return false;
    }
    return true;
}

bool takes_other_base(const Program& program, const ChangedPart& part) {
    if (part.was < 0 || part.is < 0) return false;
    const ProgramNode& was = program.node(part.was);
    const ProgramNode& is = program.node(part.is);
    const auto is_exponential = [](const ProgramNode& node) {
        return node.op == ProgramOp::call && (ProgramFunction(node.what) == ProgramFunction::exp ||
                                              ProgramFunction(node.what) == ProgramFunction::exp2);
    };
    return is_exponential(was) && is_exponential(is) && was.of == is.of;
}

/// Inputs whose name begins so, and what it is called where a stage reads them for another head; no stage: any.
struct NameOfOtherHead {
    std::string_view array;
    std::string_view stage;
    std::string_view name;
};
constexpr std::array<NameOfOtherHead, 5> other_head_names = {{{"descale_v", "acc", "descale_v_of_other_head"},
                                                              {"descale_", "", "descale_of_other_head"},
                                                              {"slope", "", "alibi_of_other_head"},
                                                              {"sink", "", "sink_of_other_head"},
                                                              {"bias", "", "bias_of_other_head"}}};

bool is_block_away(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    const bool is_moved = node.op == ProgramOp::plus || node.op == ProgramOp::minus;
    return is_moved && node.is_whole && std::ranges::any_of(program.axes, [&](const ProgramAxis& axis) {
               return axis.block >= 0 && axis.block == node.of[1];
           });
}

/// Of a state at whatever block it is taken.
std::string text_of_part(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    if (node.op != ProgramOp::read || program.array(node.what).over < 0 || node.of[0] >= 0)
        return program_text(program, number);
    const ProgramArray& array = program.array(node.what);
    if (node.list == array.indices) return array.name;
    std::string indices;
    for (const int index : node.list) indices += (indices.empty() ? "" : ", ") + program_text(program, index);
    return array.name + "[" + indices + "]";
}

}  // namespace

std::vector<std::string> changed_parts(const Program& program, int declared, int becomes) {
    std::vector<ChangedPart> changed;
    collect_changed(program, declared, becomes, changed);
    std::vector<std::string> texts;
    for (const ChangedPart& part : changed) {
        if (part.was < 0 || part.is < 0) continue;
        texts.push_back(text_of_part(program, part.was) + " -> " + text_of_part(program, part.is));
    }
    std::ranges::sort(texts);
    const auto doubled = std::ranges::unique(texts);
    texts.erase(doubled.begin(), doubled.end());
    return texts;
}

std::string_view name_of_formula(const Program& program, std::string_view made_in, int declared,
                                 int becomes) {
    std::vector<ChangedPart> changed;
    collect_changed(program, declared, becomes, changed);
    if (changed.empty()) return {};
    const auto all = [&](const auto& is) { return std::ranges::all_of(changed, is); };
    for (const auto& [array, stage, name] : other_head_names) {
        if (!stage.empty() && stage != made_in) continue;
        if (all([&](const ChangedPart& part) { return reads_other_head(program, part, array); })) return name;
    }
    if (all([&](const ChangedPart& part) { return takes_other_base(program, part); })) return "exp_base";
    return {};
}

bool takes_other_block(const Program& program, int declared, int becomes) {
    std::vector<ChangedPart> changed;
    collect_changed(program, declared, becomes, changed);
    return !changed.empty() && std::ranges::all_of(changed, [&](const ChangedPart& part) {
        if (part.was < 0 || part.is < 0) return false;
        const ProgramNode& was = program.node(part.was);
        const ProgramNode& is = program.node(part.is);
        if (was.op != ProgramOp::read || is.op != ProgramOp::read || was.what != is.what || is.is_flat)
            return false;
        if (was.state != is.state) return true;
        for (std::size_t i = 0; i < was.list.size(); ++i) {
            if (was.list[i] != is.list[i] && is_block_away(program, is.list[i])) return true;
        }
        return false;
    });
}

}  // namespace tilescope
