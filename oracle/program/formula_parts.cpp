#include "oracle/program/formula_parts.h"

#include <algorithm>
#include <span>

#include "oracle/program/build.h"

namespace tilescope {

bool takes_axis(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    return node.op == ProgramOp::axis ||
           std::ranges::any_of(node.of, [&](int of) { return of >= 0 && takes_axis(program, of); });
}

namespace {

using Pieces = std::vector<FormulaPiece>;

bool is_joined_by(ProgramOp by, const ProgramNode& node) {
    switch (by) {
        case ProgramOp::times:
            return node.op == ProgramOp::times || (node.op == ProgramOp::quotient && !node.is_whole);
        case ProgramOp::plus:
            return node.op == ProgramOp::plus || node.op == ProgramOp::minus;
        default:
            return node.op == by;
    }
}

/// A formula in two parts, until none of them is joined so.
struct Difference {
    const Program& program;
    std::vector<FormulaPart> parts{};

    void collect(ProgramOp by, int number, bool is_inverse, Pieces& pieces) const {
        const ProgramNode& node = program.node(number);
        const bool is_negative =
            node.op == ProgramOp::negative && (by == ProgramOp::plus || by == ProgramOp::times);
        if (is_negative) {
            // -x is -1 x, and in a sum it is subtracted.
            if (by == ProgramOp::plus) return collect(by, node.of[0], !is_inverse, pieces);
            pieces.push_back({-1, is_inverse});
            return collect(by, node.of[0], is_inverse, pieces);
        }
        if (!is_joined_by(by, node)) {
            pieces.push_back({number, is_inverse});
            return;
        }
        const bool turns = node.op == ProgramOp::quotient || node.op == ProgramOp::minus;
        collect(by, node.of[0], is_inverse, pieces);
        collect(by, node.of[1], is_inverse != turns, pieces);
    }

    /// Takes what both have out of them; what that is.
    std::vector<int> take_common(Pieces& was, Pieces& is) const {
        std::vector<int> common;
        std::erase_if(was, [&](const FormulaPiece& one) {
            const auto other = std::ranges::find_if(is, [&](const FormulaPiece& piece) {
                return piece.is_inverse == one.is_inverse &&
                       (piece.node == one.node || are_alike(program, piece.node, one.node));
            });
            if (other == is.end()) return false;
            if (one.node >= 0) common.push_back(one.node);
            is.erase(other);
            return true;
        });
        return common;
    }

    /// Takes numbers out of factors: their product.
    double take_numbers(Pieces& pieces) const {
        double product = 1;
        std::erase_if(pieces, [&](const FormulaPiece& piece) {
            if (piece.node >= 0 && program.node(piece.node).op != ProgramOp::number) return false;
            const double number = piece.node < 0 ? -1 : program.node(piece.node).number;
            product = piece.is_inverse ? product / number : product * number;
            return true;
        });
        return product;
    }

    /// False: they have nothing in common.
    bool join(ProgramOp by, int one, int other, const std::vector<int>& around) {
        Pieces was;
        Pieces is;
        collect(by, one, false, was);
        collect(by, other, false, is);
        if (was.size() < 2 && is.size() < 2) return false;
        std::vector<int> beside = around;
        const std::vector<int> common = take_common(was, is);
        beside.insert(beside.end(), common.begin(), common.end());
        // A factor is of all that it multiplies, a term of itself.
        const std::vector<int>& within = by == ProgramOp::times ? beside : around;
        FormulaPart part{.joined_by = by, .joined_in = one};
        if (by == ProgramOp::times) {
            part.number = take_numbers(was);
            part.ratio = take_numbers(is) / part.number;
        }
        const bool is_one_each = was.size() == 1 && is.size() == 1 && was[0].is_inverse == is[0].is_inverse;
        if (is_one_each && part.ratio == 1) {
            if (was[0].node >= 0 && is[0].node >= 0) find(was[0].node, is[0].node, within);
            return true;
        }
        if (common.empty() && !was.empty() && !is.empty()) return false;
        if (are_pairs(was, is) && part.ratio == 1) {
            for (std::size_t i = 0; i < was.size(); ++i) find(was[i].node, is[i].node, within);
            return true;
        }
        if (by == ProgramOp::plus && was.empty() && add_repeated(is, common, around)) return true;
        part.was = std::move(was);
        part.is = std::move(is);
        part.around = std::move(beside);
        parts.push_back(std::move(part));
        return true;
    }

    /// Terms that are one of the others again are a factor of it.
    bool add_repeated(const Pieces& again, const std::vector<int>& terms, const std::vector<int>& around) {
        const auto term = std::ranges::find_if(
            terms, [&](int number) { return are_alike(program, number, again.front().node); });
        const auto is_it = [&](const FormulaPiece& piece) {
            return !piece.is_inverse && piece.node >= 0 && are_alike(program, piece.node, *term);
        };
        if (term == terms.end() || !std::ranges::all_of(again, is_it)) return false;
        FormulaPart part{.joined_by = ProgramOp::times,
                         .ratio = 1 + double(again.size()),
                         .around = around,
                         .joined_in = *term};
        part.around.push_back(*term);
        parts.push_back(std::move(part));
        return true;
    }

    bool is_real(const ProgramNode& node) const {
        if (node.op == ProgramOp::negative) return is_real(program.node(node.of[0]));
        return node.op == ProgramOp::number && !node.is_whole;
    }

    bool takes(int formula, int part) const {
        if (are_alike(program, formula, part)) return true;
        return std::ranges::any_of(program.node(formula).of,
                                   [&](int operand) { return operand >= 0 && takes(operand, part); });
    }

    bool takes_array(int formula, int array) const {
        const ProgramNode& node = program.node(formula);
        if (node.op == ProgramOp::read && node.what == array) return true;
        return std::ranges::any_of(node.of,
                                   [&](int operand) { return operand >= 0 && takes_array(operand, array); });
    }

    /// As many of both, one after the other.
    static bool are_pairs(const Pieces& was, const Pieces& is) {
        return !was.empty() &&
               std::ranges::equal(was, is, [](const FormulaPiece& one, const FormulaPiece& other) {
                   return one.node >= 0 && other.node >= 0 && one.is_inverse == other.is_inverse;
               });
    }

    bool is_term_of(int number, int sum) const {
        Pieces terms;
        collect(ProgramOp::plus, sum, false, terms);
        return terms.size() > 1 && std::ranges::any_of(terms, [&](const FormulaPiece& term) {
                   return !term.is_inverse && are_alike(program, term.node, number);
               });
    }

    /// Where a factor of both is a sum, and of the other one of its terms alone: that is a product, and would run into the factors.
    bool find_in_factor(const ProgramNode& one, const ProgramNode& other, const std::vector<int>& around) {
        if (one.op != ProgramOp::times || other.op != ProgramOp::times) return false;
        for (const std::size_t side : {0U, 1U}) {
            const int was = one.of[side];
            const int is = other.of[side];
            // An index is one part with what it is multiplied with.
            if (program.node(was).is_whole || program.node(is).is_whole) continue;
            if (!are_alike(program, one.of[1 - side], other.of[1 - side])) continue;
            if (!is_term_of(is, was) && !is_term_of(was, is)) continue;
            find(was, is, around);
            return true;
        }
        return false;
    }

    void add_whole(int was, int is, const std::vector<int>& around) {
        parts.push_back({.was = {{was, false}}, .is = {{is, false}}, .around = around});
    }

    /// Where one of them is a choice and the other is not, or has the other whole in it.
    bool find_in_choice(const ProgramNode& one, const ProgramNode& other, int was, int is,
                        const std::vector<int>& around) {
        const bool is_choice = other.op == ProgramOp::chosen;
        const bool is_around_it =
            is_choice && (are_alike(program, was, other.of[0]) || are_alike(program, was, other.of[2]));
        const bool was_choice = one.op == ProgramOp::chosen && !is_around_it;
        if (was_choice == is_choice) return false;
        if (!was_choice) {
            const ProgramNode& first = program.node(other.of[0]);
            const bool is_same_array = one.op == ProgramOp::read && first.op == ProgramOp::read &&
                                       one.what == first.what && is_real(program.node(other.of[2]));
            if (is_same_array && !are_alike(program, was, other.of[0])) {
                // Beyond the array there is a number.
                find(was, other.of[0], around);
                return true;
            }
            // A guard beside what it guards.
            const bool is_number = program.node(other.of[2]).op == ProgramOp::number;
            const auto is_product = [](const ProgramNode& node) {
                return is_joined_by(ProgramOp::times, node);
            };
            if (is_number && !takes_axis(program, other.of[1]) && is_product(one) && is_product(first) &&
                !are_alike(program, was, other.of[0])) {
                find(was, other.of[0], around);
                return true;
            }
            const bool is_otherwise = are_alike(program, was, other.of[2]);
            if (!is_otherwise && !are_alike(program, was, other.of[0])) return false;
            const std::size_t before = parts.size();
            find(was, other.of[is_otherwise ? 0 : 2], around);
            for (std::size_t i = before; i < parts.size(); ++i) {
                parts[i].condition = other.of[1];
                parts[i].is_elsewhere = !is_otherwise;
            }
            return true;
        }
        if (are_alike(program, one.of[2], is)) {
            add_whole(one.of[0], is, around);
            return true;
        }
        FormulaPart part{.joined_by = ProgramOp::both, .around = around, .decided_by = was};
        collect(ProgramOp::both, one.of[1], false, part.was);
        parts.push_back(std::move(part));
        find(one.of[0], is, around);
        return true;
    }

    void find(int was, int is, const std::vector<int>& around) {
        if (are_alike(program, was, is)) return;
        if (was < 0 || is < 0) {
            add_whole(was, is, around);
            return;
        }
        const ProgramNode& one = program.node(was);
        const ProgramNode& other = program.node(is);
        if (is_real(other) || is_infinite(program, was)) return add_whole(was, is, around);
        std::vector<int> within = around;
        within.push_back(was);
        if (find_in_factor(one, other, within)) return;
        for (const ProgramOp by : {ProgramOp::both, ProgramOp::larger, ProgramOp::plus, ProgramOp::times}) {
            if ((is_joined_by(by, one) || is_joined_by(by, other)) && join(by, was, is, within)) return;
        }
        if (one.op == ProgramOp::negative || other.op == ProgramOp::negative)
            if (join(ProgramOp::times, was, is, within)) return;
        const bool is_changed_whole =
            other.op == ProgramOp::cast || other.op == ProgramOp::masked || other.op == ProgramOp::call;
        if (is_changed_whole && are_alike(program, was, other.of[0])) return add_whole(was, is, around);
        if (find_in_choice(one, other, was, is, around)) return;
        // What a stage before is computed by may be written out.
        const bool is_stage = one.op == ProgramOp::read && program.array(one.what).is_stage &&
                              program.array(one.what).indices == one.list &&
                              !takes_array(program.array(one.what).value, one.what);
        if (is_stage && are_alike(program, program.array(one.what).value, is))
            return add_whole(was, is, around);
        if (is_stage && other.op != ProgramOp::read && !takes(is, was)) {
            find(program.array(one.what).value, is, within);
            return;
        }
        const bool are_same_kind = one.op == other.op && one.what == other.what && one.list == other.list &&
                                   one.op != ProgramOp::read && one.op != ProgramOp::number;
        if (!are_same_kind) {
            add_whole(was, is, around);
            return;
        }
        const auto is_kept = [&](std::size_t i) { return are_alike(program, one.of[i], other.of[i]); };
        if (one.op == ProgramOp::chosen && !is_kept(0) && !is_kept(1) && !is_kept(2))
            return add_whole(was, is, around);
        if (one.accumulation != other.accumulation) add_whole(was, is, around);
        for (std::size_t i = 0; i < one.of.size(); ++i) {
            const std::size_t before = parts.size();
            find(one.of[i], other.of[i], within);
            for (FormulaPart& part : std::span(parts).subspan(before)) {
                part.is_in_sum = part.is_in_sum || is_reduction(one.op);
                if (one.op == ProgramOp::chosen && i > 0 && part.decided_by < 0) part.decided_by = was;
                if (is_comparison(one.op) && part.compared_was < 0) {
                    part.compared_was = was;
                    part.compared_is = is;
                }
            }
        }
    }
};

}  // namespace

std::vector<FormulaPart> changed_parts_of(const Program& program, int declared, int becomes) {
    Difference difference{program};
    difference.find(declared, becomes, {});
    return std::move(difference.parts);
}

}  // namespace tilescope
