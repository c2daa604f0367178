#include "oracle/program/formula_changes.h"

#include <fmt/format.h>

#include <algorithm>

#include "oracle/program/build.h"
#include "oracle/program/formula_parts.h"

namespace tilescope {

namespace {

bool has_reduction(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    return is_reduction(node.op) ||
           std::ranges::any_of(node.of, [&](int of) { return of >= 0 && has_reduction(program, of); });
}

/// The read that a part is of, be it so in some places or within an array.
const ProgramNode* read_in(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::chosen) return read_in(program, node.of[0]);
    return node.op == ProgramOp::read ? &node : nullptr;
}

constexpr std::string_view the_value = "the value";

/// In place of the formula of it.
void put_value(const std::string& formula, std::string& text) {
    for (std::size_t at = text.find(formula); at != std::string::npos; at = text.find(formula, at))
        text.replace(at, formula.size(), the_value);
}

/// Whether a piece stands in parentheses beside others that are joined so.
bool is_looser(ProgramOp joined_by, ProgramOp piece) {
    if (piece == ProgramOp::chosen) return joined_by != ProgramOp::larger;
    if (joined_by == ProgramOp::both) return piece == ProgramOp::either;
    return joined_by == ProgramOp::times && (piece == ProgramOp::plus || piece == ProgramOp::minus);
}

struct Changes {
    const Program& program;
    int declared;

    FormulaSlot slot_of(const FormulaPart& part) const {
        const bool is_hidden =
            part.decided_by >= 0 && is_infinite(program, program.node(part.decided_by).of[2]);
        const bool is_value = is_hidden && part.was.size() == 1 && part.was[0].node >= 0 &&
                              are_alike(program, part.was[0].node, program.node(part.decided_by).of[2]);
        if (is_value) return FormulaSlot::masked;
        if (is_hidden) return FormulaSlot::mask;
        if (part.decided_by >= 0 || part.joined_by == ProgramOp::both) return FormulaSlot::guard;
        if (part.joined_by == ProgramOp::times) return FormulaSlot::factor;
        if (part.joined_by == ProgramOp::plus) return FormulaSlot::term;
        if (part.joined_by == ProgramOp::larger) return FormulaSlot::bound;
        const int was = part.was.size() == 1 ? part.was[0].node : -1;
        const int is = part.is.size() == 1 ? part.is[0].node : -1;
        return was >= 0 && is >= 0 ? slot_of_whole(part, was, is) : FormulaSlot::value;
    }

    FormulaSlot slot_of_whole(const FormulaPart& part, int was, int is) const {
        // A term that is the neutral number in some places is not there.
        const bool is_left_out = part.is_in_sum && part.condition >= 0;
        if (is_infinite(program, is)) return is_left_out ? FormulaSlot::range : FormulaSlot::mask;
        const ProgramNode* const read = read_in(program, is);
        const ProgramNode* const declared_read = read_in(program, was);
        if (read && declared_read && read->what == declared_read->what) return FormulaSlot::index;
        const ProgramNode& one = program.node(was);
        const ProgramNode& other = program.node(is);
        const bool is_cast = other.op == ProgramOp::cast && are_alike(program, other.of[0], was);
        const bool is_uncast = one.op == ProgramOp::cast && are_alike(program, one.of[0], is);
        const bool is_recast = one.op == ProgramOp::cast && other.op == ProgramOp::cast;
        const bool is_summed_otherwise =
            one.op == ProgramOp::sum && other.op == ProgramOp::sum && one.accumulation != other.accumulation;
        if (is_cast || is_uncast || is_recast || is_summed_otherwise) return FormulaSlot::type;
        if (is_left_out && is_number(program, is, 0)) return FormulaSlot::range;
        return FormulaSlot::value;
    }

    std::string text_of(ProgramOp joined_by, const std::vector<FormulaPiece>& pieces, double number) const {
        const bool is_product = joined_by == ProgramOp::times;
        const std::string_view between = is_product                       ? " * "
                                         : joined_by == ProgramOp::both   ? " and "
                                         : joined_by == ProgramOp::larger ? ", "
                                                                          : " + ";
        std::string text = is_product && number != 1 ? fmt::format("{}", number) : "";
        for (const FormulaPiece& piece : pieces) {
            std::string own = piece.node < 0 ? "-1" : part_text(program, piece.node);
            const bool is_alone = pieces.size() == 1 && text.empty() && !piece.is_inverse;
            if (!is_alone && piece.node >= 0 && is_looser(joined_by, program.node(piece.node).op))
                own = "(" + own + ")";
            const std::string_view sign =
                is_product ? (text.empty() ? "1 / " : " / ") : (text.empty() ? "-" : " - ");
            if (piece.is_inverse) {
                text += fmt::format("{}{}", sign, own);
            } else {
                text += fmt::format("{}{}", text.empty() ? "" : between, own);
            }
        }
        return text;
    }

    /// What the formula computes is `the value` there, with its mask or without.
    std::string shortened(std::string text) const {
        const ProgramNode& node = program.node(declared);
        if (node.op == ProgramOp::read) return text;
        put_value(part_text(program, declared), text);
        if (node.op == ProgramOp::chosen && has_reduction(program, node.of[0]))
            put_value(part_text(program, node.of[0]), text);
        return text;
    }

    /// Whether it is done to what a sum leaves, and not beside that.
    bool is_made_of_sum(const FormulaPart& part, FormulaSlot slot) const {
        if (slot < FormulaSlot::factor) return false;
        if (part.joined_in >= 0) return has_reduction(program, part.joined_in);
        return part.was.size() == 1 && part.was[0].node >= 0 && has_reduction(program, part.was[0].node);
    }

    ChangedSlot told(const FormulaPart& part) const {
        ChangedSlot change{.slot = slot_of(part), .is_in_sum = part.is_in_sum};
        change.is_after_sum = !part.is_in_sum && is_made_of_sum(part, change.slot);
        // A factor that is there as well is said shorter than both products.
        const bool is_beside =
            part.joined_by == ProgramOp::times && part.ratio != 1 && part.number != 1 &&
            fmt::format("{}", part.ratio).size() < fmt::format("{}", part.number * part.ratio).size();
        change.was = text_of(part.joined_by, part.was, is_beside ? 1 : part.number);
        change.becomes = text_of(part.joined_by, part.is, is_beside ? part.ratio : part.number * part.ratio);
        if (part.joined_by == ProgramOp::times && part.ratio == 1) {
            change.was = text_of(part.joined_by, part.was, 1);
            change.becomes = text_of(part.joined_by, part.is, 1);
        }
        if (part.compared_was >= 0) {
            change.was = part_text(program, part.compared_was);
            change.becomes = part_text(program, part.compared_is);
        }
        if (change.slot == FormulaSlot::masked) change.becomes = shortened(change.becomes);
        if (part.condition >= 0)
            change.where = (part.is_elsewhere ? "except where " : "where ") +
                           shortened(part_text(program, part.condition));
        return change;
    }
};

}  // namespace

std::vector<ChangedSlot> changed_slots(const Program& program, int declared, int becomes, bool is_start) {
    if (is_start) {
        const std::string was = declared < 0 ? "" : part_text(program, declared);
        return {{.slot = FormulaSlot::start, .was = was, .becomes = part_text(program, becomes)}};
    }
    const Changes changes{program, declared};
    std::vector<ChangedSlot> told;
    for (const FormulaPart& part : changed_parts_of(program, declared, becomes)) {
        ChangedSlot change = changes.told(part);
        if (std::ranges::find(told, change) == told.end()) told.push_back(std::move(change));
    }
    return told;
}

std::string part_text(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    if (node.op != ProgramOp::read || program.array(node.what).over < 0 || node.of[0] >= 0)
        return program_text(program, number);
    const ProgramArray& array = program.array(node.what);
    if (node.list == array.indices) return array.name;
    std::string indices;
    for (const int index : node.list) indices += (indices.empty() ? "" : ", ") + program_text(program, index);
    return array.name + "[" + indices + "]";
}

}  // namespace tilescope
