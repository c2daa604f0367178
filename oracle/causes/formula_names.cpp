#include "oracle/causes/formula_names.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "oracle/causes/formula_patterns.h"
#include "oracle/causes/formula_words.h"
#include "oracle/causes/table.h"
#include "oracle/program/build.h"
#include "oracle/program/formula_changes.h"
#include "oracle/program/formula_parts.h"

namespace tilescope {

namespace {

/// Numbers that stand alone, are added or are least values are different words.
bool is_of_kind(ProgramOp joined_by, std::string_view word) {
    if (word == "#" || word == "one" || word == "constant" || word == "cap")
        return joined_by == ProgramOp::chosen;
    if (word == "+#" || word == "+next") return joined_by == ProgramOp::plus;
    return word != "bound" || joined_by == ProgramOp::larger;
}

struct Named {
    const Program& program;
    const Problem& problem;
    double p_scale;
    const OtherFormula& formula;

    /// With either sign; 1 where nothing is multiplied with it behind tanh.
    bool is_cap(int number) const {
        const ProgramNode& node = program.node(number);
        if (node.op == ProgramOp::negative) return is_cap(node.of[0]);
        const double cap = double(problem.logits_soft_cap);
        return node.op == ProgramOp::number && cap > 0 &&
               (std::abs(node.number) == cap || std::abs(node.number) == 1);
    }

    bool are_words(const FormulaPart& part, std::span<const FormulaPiece> pieces, std::string_view text,
                   const FormulaPiece* was) const {
        if (text == "1") return pieces.empty();
        std::vector<std::string_view> words = words_of(text);
        const bool is_open = std::ranges::find(words, "*") != words.end();
        std::erase(words, "*");
        std::vector<bool> taken(pieces.size());
        for (std::string_view word : words) {
            const bool is_inverse = word.size() > 1 && (word.starts_with('-') || word.starts_with('/'));
            const bool is_signed = word.starts_with('+');
            if (!is_of_kind(part.joined_by, word)) return false;
            if (is_inverse) word.remove_prefix(1);
            bool is_there = false;
            for (std::size_t i = 0; i < pieces.size() && !is_there; ++i) {
                const FormulaPiece& piece = pieces[i];
                if (taken[i] || piece.node < 0) continue;
                const bool is_read = word.starts_with('[') || word == "uncast" || word == "same<";
                is_there = word == "cap" ? is_cap(piece.node)
                           : is_read     ? was && was->node >= 0 &&
                                           is_word_of_both(program, problem, was->node, piece.node, word)
                                     : is_word(program, program.node(piece.node), word);
                const bool joins = part.joined_by == ProgramOp::times || part.joined_by == ProgramOp::plus;
                is_there = is_there && (joins ? is_signed || piece.is_inverse == is_inverse : !is_inverse);
                if (is_there) taken[i] = true;
            }
            if (!is_there) return false;
        }
        return is_open || std::ranges::find(taken, false) == taken.end();
    }

    /// A product is its factors only where it is a piece itself.
    bool stands_in(const FormulaPart& part, std::string_view word) const {
        return std::ranges::any_of(part.around, [&](int number) {
            const ProgramNode& node = program.node(number);
            const bool is_product = node.op == ProgramOp::times || node.op == ProgramOp::quotient;
            return is_product && !node.is_whole ? word == "product" : is_word(program, node, word);
        });
    }

    bool is_around(const FormulaPart& part, std::string_view words) const {
        const bool has_window = problem.window_left >= 0 || problem.window_right >= 0;
        const bool is_causal = problem.mask == Mask::causal;
        while (!words.empty()) {
            const std::string_view word = next_word(words);
            const bool is_so = word == "also"          ? true
                               : word == "from"        ? formula.is_start
                               : word == "causal"      ? is_causal
                               : word == "windowed"    ? has_window && !is_causal
                               : word == "capped"      ? problem.logits_soft_cap > 0
                               : word.starts_with('!') ? !stands_in(part, word.substr(1))
                                                       : stands_in(part, word);
            if (!is_so) return false;
        }
        return true;
    }

    /// Of the keys from the first one of the last block on.
    bool begins_last_block(const ProgramNode& condition) const {
        if (condition.op != ProgramOp::at_least) return false;
        const ProgramNode& key = program.node(condition.of[0]);
        const ProgramNode& first = program.node(condition.of[1]);
        if (!is_word(program, key, "j") || first.op != ProgramOp::minus ||
            !is_word(program, program.node(first.of[0]), "seqlen_kv"))
            return false;
        const std::int64_t rest = problem.seqlen_kv % problem.block_n;
        return program.node(first.of[1]).number == double(rest > 0 ? rest : problem.block_n);
    }

    void collect_axes(int number, std::vector<std::string_view>& axes) const {
        const ProgramNode& node = program.node(number);
        if (begins_last_block(node)) {
            axes.push_back("block");
            return;
        }
        if (node.op == ProgramOp::axis) axes.push_back(program.axes[std::size_t(node.what)].name);
        const int of = node.op == ProgramOp::quotient ? program.axis_of(node.of[0]) : -1;
        if (of >= 0 && program.axes[std::size_t(of)].block == node.of[1]) {
            axes.push_back("block");
            return;
        }
        for (const int operand : node.of)
            if (operand >= 0) collect_axes(operand, axes);
    }

    bool leaves_one_lane(const ProgramNode& condition) const {
        const auto is_number = [&](int of, double number) {
            return program.node(of).op == ProgramOp::number && program.node(of).number == number;
        };
        if (!is_comparison(condition.op)) return false;
        const ProgramNode& bound = program.node(condition.of[1]);
        if (bound.op == ProgramOp::times && program.node(bound.of[0]).op == ProgramOp::rest) return true;
        if (program.node(condition.of[0]).op != ProgramOp::rest) return false;
        const bool is_first = (condition.op == ProgramOp::at_least && is_number(condition.of[1], 1)) ||
                              (condition.op == ProgramOp::more && is_number(condition.of[1], 0));
        return is_first || condition.op == ProgramOp::unequal;
    }

    bool has_number(const std::array<int, 3>& compared) const {
        return std::ranges::any_of(
            compared, [&](int of) { return of >= 0 && program.node(of).op == ProgramOp::number; });
    }

    /// Of what comes from some index on, of any of the axes that are compared.
    bool is_end(int condition, bool is_elsewhere) const {
        const ProgramNode& node = program.node(condition);
        const auto are_ends = [&](bool is_other) {
            return is_end(node.of[0], is_other) && is_end(node.of[1], is_other);
        };
        if (node.op == ProgramOp::opposite) return is_end(node.of[0], !is_elsewhere);
        if (node.op == (is_elsewhere ? ProgramOp::both : ProgramOp::either)) return are_ends(is_elsewhere);
        if (!is_comparison(node.op)) return false;
        // The last one is an end as well.
        const ProgramNode& bound = program.node(node.of[1]);
        const bool is_last = node.op == ProgramOp::equal && bound.op == ProgramOp::minus &&
                             program.node(bound.of[1]).number == 1;
        if (is_elsewhere) return is_upper(node.op);
        return is_last || node.op == ProgramOp::at_least || node.op == ProgramOp::more;
    }

    bool is_where(int condition, bool is_elsewhere, std::string_view words) const {
        if (words.empty()) return true;
        if (words == "-") return condition < 0;
        if (condition < 0) return false;
        const ProgramOp op = program.node(condition).op;
        if (has_word(words, ">=") && !is_end(condition, is_elsewhere)) return false;
        if (has_word(words, "<>") && op != ProgramOp::both && op != ProgramOp::either &&
            op != ProgramOp::unequal)
            return false;
        std::vector<std::string_view> axes;
        collect_axes(condition, axes);
        // With a number, of values and not of places.
        if (has_word(words, "<"))
            return axes.empty() && is_comparison(op) && has_number(program.node(condition).of);
        // All columns of a period but one, or a part of head_dim by the column.
        if (has_word(words, "lanes") && !leaves_one_lane(program.node(condition))) return false;
        return !axes.empty() &&
               std::ranges::all_of(axes, [&](std::string_view axis) { return has_word(words, axis); });
    }

    /// A load is a stage of its own where the operand was recorded, and a read of the input elsewhere.
    bool is_in_stage(std::string_view stages, const FormulaPart& part) const {
        if (stages == "*" || has_word(stages, formula.stage)) return true;
        if (stages != "load") return false;
        constexpr std::array<std::string_view, 4> loads = {"q", "k", "v", "dout"};
        if (std::ranges::find(loads, formula.stage) != loads.end()) return true;
        if (part.was.size() != 1 || part.was[0].node < 0) return false;
        const ProgramNode& was = program.node(part.was[0].node);
        return was.op == ProgramOp::read && is_operand_input(program.array(was.what).name);
    }

    bool is(const FormulaName& name, const FormulaPart& part) const {
        if (!is_in_stage(name.stages, part)) return false;
        if (formula.is_start && !has_word(name.around, "from") && name.stages != "*") return false;
        const int condition = part.condition >= 0 ? part.condition : formula.condition;
        if (!is_around(part, name.around) || !is_where(condition, part.is_elsewhere, name.where))
            return false;
        // Whole blocks are those of all rows.
        const bool is_of_some = part.condition >= 0 && formula.condition >= 0;
        if (name.where == "block" && is_of_some && !is_where(formula.condition, false, name.where))
            return false;
        // Conditions beside one that is dropped are not around it.
        const bool is_in_condition =
            part.joined_by != ProgramOp::both && std::ranges::any_of(part.around, [&](int number) {
                return is_comparison(program.node(number).op);
            });
        if (is_in_condition && !has_word(name.around, "<")) return false;
        const FormulaPiece* const was = part.was.empty() ? nullptr : &part.was.front();
        const bool takes_any_number = name.is.ends_with('*');
        if (part.joined_by == ProgramOp::times && part.ratio != 1 && !takes_any_number) {
            // The numbers are one word, the last one.
            const std::vector<std::string_view> words = words_of(name.is == "1" ? "" : name.is);
            if (words.empty() || !is_number_word(problem, p_scale, part.ratio, words.back())) return false;
            const std::string_view rest = name.is.substr(0, name.is.size() - words.back().size());
            return are_words(part, part.was, name.was, nullptr) &&
                   are_words(part, part.is, rest.empty() ? "1" : rest, was);
        }
        return are_words(part, part.was, name.was, nullptr) && are_words(part, part.is, name.is, was);
    }
};

/// Whether the states that it takes, if any, are those before the block.
bool takes_states_before(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::read && program.array(node.what).over >= 0 &&
        node.state != ProgramState::before)
        return false;
    return std::ranges::all_of(node.of, [&](int of) { return of < 0 || takes_states_before(program, of); });
}

/// The smallest parts that stand in each other's place as they are written; `unsaid`: the same program, which does not say that a state
/// is the one before the block, as the formula of that state does not.
void collect_changed(const Program& program, const Program& unsaid, int was, int is,
                     std::vector<std::string>& texts) {
    if (was == is || was < 0 || is < 0) return;
    const ProgramNode& one = program.node(was);
    const ProgramNode& other = program.node(is);
    const bool is_alike = one.op == other.op && one.what == other.what && one.op != ProgramOp::read &&
                          one.list == other.list && one.number == other.number &&
                          one.accumulation == other.accumulation;
    if (!is_alike) {
        if (are_alike(program, was, is)) return;
        const bool are_before = takes_states_before(program, was) && takes_states_before(program, is);
        const Program& said = are_before ? unsaid : program;
        texts.push_back(part_text(said, was) + " -> " + part_text(said, is));
        return;
    }
    for (std::size_t i = 0; i < one.of.size(); ++i)
        collect_changed(program, unsaid, one.of[i], other.of[i], texts);
}

}  // namespace

std::vector<std::string> changed_parts(const Program& program, int declared, int becomes) {
    std::vector<std::string> texts;
    Program unsaid = program;
    for (ProgramNode& node : unsaid.nodes)
        if (node.op == ProgramOp::read && node.state == ProgramState::before) node.says_state = false;
    collect_changed(program, unsaid, declared, becomes, texts);
    std::ranges::sort(texts);
    const auto doubled = std::ranges::unique(texts);
    texts.erase(doubled.begin(), doubled.end());
    return texts;
}

namespace {

/// Null: none.
const FormulaName* row_of_parts(const Named& named, const std::vector<FormulaPart>& parts) {
    if (parts.empty()) return nullptr;
    for (const FormulaName& name : formula_patterns()) {
        if (has_word(name.around, "also") || !named.is(name, parts.front())) continue;
        const auto is_it = [&](const FormulaPart& part) {
            return std::ranges::any_of(formula_patterns(), [&](const FormulaName& other) {
                return other.name == name.name && named.is(other, part);
            });
        };
        if (std::ranges::all_of(parts, is_it)) return &name;
    }
    return nullptr;
}

const FormulaName* row_of_formula(const Program& program, const Problem& problem, double p_scale,
                                  const OtherFormula& formula) {
    const Named named{program, problem, p_scale, formula};
    const auto row_beside = [&](int declared) {
        return row_of_parts(named, changed_parts_of(program, declared, formula.becomes));
    };
    const FormulaName* const row = row_beside(formula.declared);
    if (row || formula.is_start) return row;
    // Where a mask makes it a number, and the other formula is another one under the mask as well, that follows from the rest.
    const ProgramNode& declared = program.node(formula.declared);
    const bool is_guarded =
        declared.op == ProgramOp::chosen && program.node(declared.of[2]).op == ProgramOp::number;
    const bool is_bare = program.node(formula.becomes).op != ProgramOp::chosen;
    return is_guarded && is_bare ? row_beside(declared.of[0]) : nullptr;
}

}  // namespace

bool lacks_guard(const Program& program, int declared, int becomes) {
    const std::vector<FormulaPart> parts = changed_parts_of(program, declared, becomes);
    return !parts.empty() && std::ranges::all_of(parts, [&](const FormulaPart& part) {
        return part.joined_by == ProgramOp::both && part.is.empty() &&
               std::ranges::all_of(part.was, [&](const FormulaPiece& piece) {
                   return piece.node >= 0 && is_word(program, program.node(piece.node), "<v");
               });
    });
}

std::vector<std::string_view> names_of_formulas() {
    std::vector<std::string_view> all{output_stored_elsewhere_name, rows_stored_past_end_name};
    for (const FormulaName& row : formula_patterns()) all.push_back(row.name);
    return all;
}

std::string_view name_of_formula(const Program& program, const Problem& problem, double p_scale,
                                 const OtherFormula& formula) {
    const FormulaName* const row = row_of_formula(program, problem, p_scale, formula);
    return row ? row->name : std::string_view();
}

bool is_known_formula(const Program& program, const Problem& problem, double p_scale,
                      const OtherFormula& formula) {
    const FormulaName* const row = row_of_formula(program, problem, p_scale, formula);
    constexpr std::array<std::string_view, 4> open = {"#", "constant", "bound", "[j]"};
    return row && std::ranges::find(open, row->is) == open.end();
}

bool takes_other_block(const Program& program, int declared, int becomes) {
    const std::vector<FormulaPart> parts = changed_parts_of(program, declared, becomes);
    return !parts.empty() && std::ranges::all_of(parts, [&](const FormulaPart& part) {
        if (part.was.size() != 1 || part.is.size() != 1 || part.was[0].node < 0 || part.is[0].node < 0)
            return false;
        const ProgramNode& was = program.node(part.was[0].node);
        const ProgramNode& is = program.node(part.is[0].node);
        if (was.op != ProgramOp::read || is.op != ProgramOp::read || was.what != is.what || is.is_flat)
            return false;
        if (was.state != is.state) return true;
        for (std::size_t i = 0; i < was.list.size(); ++i) {
            if (was.list[i] != is.list[i] && is_block_away(program, is.list[i], 0)) return true;
        }
        return false;
    });
}

}  // namespace tilescope
