#include "oracle/causes/formula_names.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "oracle/causes/formula_parts.h"
#include "oracle/causes/formula_words.h"
#include "oracle/program/build.h"

namespace tilescope {

namespace {

/// A name for formulas, each part of which that differs is one of its patterns. A pattern is words, one for each factor, term or
/// condition; `-` or `/` before a word: that is subtracted, or divided by. `1`: nothing.
///   rescale                     a read of that array, the axis or the size; descale_*: of an array that begins so; operand: Q, K, V or dO
///   exp cast max sum            a call of that function, any cast, a maximum, a sum; narrow: a sum in 16 bits; minus, product: a difference,
///                               factors
///   < <j <v <# <i <end same<    a comparison: any, of axes, of values, with a number, of a row without one, of axes but the row, one of the
///                               same direction
///   : % %block                  whole / whole, a rest, a rest by the block of the axis
///   [h] [h %] [h block] ...     a read of the same array whose index along h is another one, a rest, whole blocks away; moved: by a number;
///                               ^, bits: by bits; exchanged: its two parts; [transposed] [pitch]: rows and columns of a tile; [before]: its
///                               state; [bshd] [flat]: by the number of the element; [flat moved]: by one
///                               beside it; []: whatever it is
///   # scale log2e padded 0 -1   all numbers among factors together: any, sm_scale, log2(e), of a padded head_dim
///   +# bound constant cap       a number that is added, that is a least value, that stands there alone, that is the soft cap
///   one                         the number 1 that stands there alone
///   uncast cut_off              what was cast, and what lacks the last bits
///   p~ ? *                      p or what takes it, anything, any number of anything
struct FormulaName {
    std::string_view name;
    std::string_view stages;  ///< `load`: of an operand, as a stage or as an input
    /// Words of what the part stands in, or beside; `!word`: of none. `from`: it is what the state begins with. `causal`: the
    /// mask is; `windowed`: it has a window, and is not causal. `also`: beside another part.
    std::string_view around;
    std::string_view was;
    std::string_view is;
    /// Axes that its condition may take; `-`: it has none; empty: either. `lanes`: it leaves one of each period out.
    std::string_view where = {};
};

constexpr FormulaName names[] = {
    // Inputs of other heads.
    {"descale_v_of_other_head", "acc o", "", "descale_v", "[h]"},
    {"descale_v_of_other_head", "acc o", "", "descale_v", "[flat moved]"},
    {"descale_of_other_head", "*", "", "descale_*", "[h]"},
    {"descale_of_other_head", "*", "", "descale_*", "[flat moved]"},
    {"alibi_of_other_head", "*", "", "slope", "[h]"},
    {"sink_of_other_head", "*", "", "sink", "[h]"},
    {"bias_of_other_head", "*", "", "bias", "[h]"},
    {"bias_of_other_head", "*", "", "bias", "[b]"},
    // Loads.
    {"bshd_as_bhsd", "load", "", "operand", "[bshd]"},
    {"kv_head_modulo", "load", "", "operand", "[h %]"},
    {"other_kv_head", "load", "", "operand", "[h]"},
    {"other_batch", "load", "", "operand", "[b]"},
    {"rows_not_loaded", "load", "", "operand", "[j block]", "i j"},
    {"other_kv_tile", "load", "", "operand", "[j block]"},
    {"other_kv_tile", "load", "", "operand", "[j %block]"},
    {"rows_shifted", "load", "", "operand", "[i moved]"},
    {"rows_shifted", "load", "", "operand", "[j moved]", "-"},
    {"rows_zeroed", "load", "", "?", "0", "-"},
    {"rows_zeroed", "load", "", "?", "0", ">= i j"},
    {"rows_not_loaded", "load", "", "?", "0", "b h i j"},
    {"head_dim_truncated", "load", "", "?", "0", ">= d e"},
    {"operand_precision", "load", "", "?", "cast"},
    {"codes_not_decoded", "load", "", "?", "0", "<"},
    {"codes_not_decoded", "load", "", "1", "0"},
    {"operand_transposed", "load", "", "operand", "[transposed]"},
    {"columns_permuted", "load", "", "operand", "[d ^]"},
    {"columns_permuted", "load", "", "operand", "[e ^]"},
    {"operand_addresses", "load", "", "operand", "[]"},
    {"kv_head_modulo", "load", "also", "descale_*", "[h %]"},
    {"other_kv_head", "load", "also", "descale_*", "[h]"},
    {"other_batch", "load", "also", "descale_*", "[b]"},
    {"descale_missing", "q k v s", "", "descale_*", "1"},
    {"descale_twice", "q k v s", "", "1", "descale_*"},
    {"descale_v_missing", "acc o", "", "descale_v", "1"},
    {"descale_v_twice", "acc o", "", "1", "descale_v"},
    // Scores.
    {"cap_missing", "s x", "", "tanh *", "sum *"},
    {"cap_missing", "s x", "", "tanh *", "s *"},
    {"cap_after_mask", "s x", "", "inf", "cap"},
    {"non_finite_replaced", "s x p u", "", "inf", "#"},
    {"alibi_missing", "s x", "", "slope~ -slope~", "1"},
    {"alibi_sign", "s x", "slope", "1", "-1"},
    {"alibi_sign", "s x", "", "slope~ -slope~", "-slope~ slope~"},
    {"alibi_scaled", "s x", "slope", "1", "#"},
    {"alibi_offset", "s x", "slope", "1", "+#"},
    {"alibi_offset", "s x", "slope", "1", "seqlen_kv -seqlen_q"},
    {"alibi_offset", "s x", "slope", "seqlen_kv -seqlen_q", "1"},
    {"alibi_offset", "s x", "slope", "whole_kv -whole_q", "1"},
    {"bias_missing", "s x", "", "bias", "1"},
    {"bias_before_scale", "s x", "bias", "1", "scale"},
    {"scale_missing", "s x", "!bias !slope", "1", "/scale"},
    {"scale_twice", "s x", "!bias !slope", "1", "scale"},
    {"scale_inverted", "s x", "!bias !slope", "1", "/scale^2"},
    {"scale_of_padded_head_dim", "s x", "!bias !slope", "1", "padded"},
    {"k_not_transposed", "s", "sum", "k", "[transposed]"},
    {"wrong_leading_dimension", "s", "sum", "k", "[pitch]"},
    {"scores_of_other_tile", "s", "sum", "k", "[j block]"},
    {"fragment_filled_linearly", "s", "sum", "?", "[d bits]"},
    {"one_lane_only", "s", "", "sum *", "0", "j lanes"},
    {"one_lane_only", "s", "sum", "*", "0", "d j lanes"},
    {"first_fragment_only", "s", "", "sum *", "0", "i j"},
    {"k_slice_missing", "s", "sum", "*", "0", "<> d"},
    {"head_dim_truncated", "s", "sum", "*", "0", ">= d"},
    {"k_slice_missing", "s", "sum", "*", "0", "d"},
    {"half_scores", "s", "!sum", "?", "cast"},
    {"half_scores", "s", "", "sum", "narrow"},
    {"score_constant", "s x", "!bias !slope", "1", "#", "-"},
    // Masks.
    {"causal_top_left", "s x", "<", "seqlen_kv -seqlen_q", "1"},
    {"causal_top_left", "s x", "slope", "seqlen_kv -seqlen_q", "1"},
    {"causal_top_left", "s x", "<", "whole_kv -whole_q", "1"},
    {"causal_top_left", "s x", "slope", "whole_kv -whole_q", "1"},
    {"causal_bottom_right", "s x", "<", "1", "seqlen_kv -seqlen_q"},
    {"causal_bottom_right", "s x", "slope", "1", "seqlen_kv -seqlen_q"},
    {"mask_tile_local", "s x", "<", "*", "%block"},
    {"mask_row_of_group", "s x", "<", "i", ":~"},
    {"kv_tile_skipped", "s", "", "?", "inf", "block"},
    {"mask_elsewhere", "s", "", "?", "inf"},
    {"causal_ignored", "s x", "causal", "<i *", "1"},
    {"window_ignored", "s x", "", "<# *", "1"},
    {"window_ignored", "s x", "windowed", "<j *", "1"},
    {"window_shifted", "s x", "< #", "1", "+#"},
    {"window_shifted", "s x", "< <#", "#", "#"},
    {"window_shifted", "s x", "windowed", "<j", "same<"},
    {"window_shifted", "s x", "", "<#", "same<"},
    {"diagonal_shifted", "s x", "<", "1", "+#"},
    {"diagonal_shifted", "s x", "", "<j", "same<"},
    // Maxima.
    {"m_not_carried", "m", "", "m", "1"},
    {"m_in_other_base", "m", "", "1", "log2e"},
    {"m_in_other_base", "m", "", "1", "/log2e"},
    {"m_of_part_of_row", "m", "max", "?", "inf", "j"},
    {"m_of_part_of_row", "m", "max", "s", "[j]"},
    {"m_of_several_rows", "m", "", "1", "^~ *"},
    {"sink_missing", "m", "from", "sink", "inf"},
    {"sink_missing", "l", "from", "?", "0"},
    {"sink_scaled", "m", "from sink", "1", "scale"},
    {"sink_scaled", "m", "from sink", "1", "/scale"},
    {"sink_twice", "l", "from", "?", "2"},
    {"sink_twice", "l", "", "one", "2"},
    {"m_starts_at", "m", "from", "?", "#"},
    // Probabilities.
    {"lse_of_other_base", "p", "lse", "1", "log2e"},
    {"lse_of_other_base", "p", "lse", "1", "/log2e"},
    {"exp_base", "*", "", "exp", "exp2"},
    {"exp_base", "*", "", "exp2", "exp"},
    {"exp_base", "p", "exp", "1", "log2e"},
    {"exp_base", "p", "exp", "1", "/log2e"},
    {"exp_base", "p", "exp2", "1", "log2e"},
    {"exp_base", "p", "exp2", "1", "/log2e"},
    {"p_flushed", "p u", "", "?", "0", "<"},
    {"exp_clamped", "p u", "exp", "*", "constant", "<"},
    {"exp_clamped", "p u", "", "1", "bound"},
    {"exp_clamped", "p u", "", "?", "constant", "<"},
    {"exponent_rounded", "p u", "exp", "*", "cast"},
    {"exponent_rounded", "p u", "exp2", "*", "cast"},
    {"undeclared_cast", "p u", "!exp !exp2", "?", "cast", "-"},
    {"inf_minus_inf", "p u", "", "<v", "1"},
    {"cast_truncated", "p u acc o", "", "cast", "cut_off"},
    {"cast_truncated", "p u acc o", "", "?", "cut_off"},
    {"p_of_old_max", "p u", "exp", "m", "[before]"},
    {"p_of_old_max", "p u", "exp2", "m", "[before]"},
    {"p_scale_missing", "p u", "exp", "+#", "1"},
    {"p_scale_missing", "p u", "exp2", "+#", "1"},
    {"p_scale_missing", "p u", "", "1", "/p_scale"},
    {"masked_p_not_zero", "p u", "", "0", "#"},
    // Sums.
    {"l_not_rescaled", "l", "", "rescale", "1"},
    {"l_rescaled_twice", "l", "", "1", "rescale"},
    {"l_rescaled_inversely", "l", "exp", "1", "-1"},
    {"l_rescaled_inversely", "l", "", "rescale", "/rescale"},
    {"l_not_carried", "l", "", "rescale", "0"},
    {"l_not_carried", "l", "", "rescale~", "1"},
    {"l_starts_at", "l", "", "rescale~", "one", "block"},
    {"l_starts_at", "l", "", "rescale~", "#", "block"},
    {"tile_not_rescaled", "l acc", "", "to_m", "1"},
    {"l_starts_at", "l", "from", "?", "#"},
    {"l_counted_n_times", "l", "!exp !exp2", "1", "#", "-"},
    {"l_of_part_of_row", "l", "sum", "*", "0", "j"},
    {"l_of_cast_p", "l", "sum", "?", "cast", "-"},
    {"l_of_several_rows", "l", "", "1", "^~ *"},
    {"l_of_uncast_p", "l", "sum", "?", "uncast", "-"},
    {"l_floored", "l", "!sum", "*", "constant", "<"},
    {"l_floored", "l", "!sum", "1", "bound"},
    // The accumulator.
    {"acc_not_rescaled", "acc", "", "rescale", "1"},
    {"acc_rescaled_twice", "acc", "", "1", "rescale"},
    {"acc_rescaled_inversely", "acc", "exp", "1", "-1"},
    {"acc_rescaled_inversely", "acc", "", "rescale", "/rescale"},
    {"not_multiplied_with_l", "acc", "", "l*", "1"},
    {"acc_not_carried", "acc", "", "rescale", "0"},
    {"acc_not_carried", "acc", "", "rescale~", "1"},
    {"v_of_other_tile", "acc", "sum", "v", "[j block]"},
    {"v_not_transposed", "acc", "sum", "v", "[transposed]"},
    {"v_wrong_leading_dimension", "acc", "sum", "v", "[pitch]"},
    {"p_of_other_tile", "acc", "sum", "p", "[j block]"},
    {"p_of_other_tile", "acc", "sum", "p", "[j %block]"},
    {"fragment_filled_linearly", "acc", "sum", "?", "[j bits]"},
    {"pv_slice_missing", "acc", "sum", "*", "0", "j"},
    {"half_accumulator", "acc", "!sum", "?", "cast"},
    {"half_accumulator", "acc", "", "sum", "narrow"},
    {"p_scale_left", "acc o", "", "1", "p_scale"},
    {"p_scale_left", "acc o", "", "1", "/p_scale"},
    {"uncast_p_multiplied", "acc", "sum", "?", "uncast", "-"},
    // Outputs.
    {"not_normalised", "o o_of", "", "/l*", "1"},
    {"double_normalised", "o o_of", "", "1", "/l*"},
    {"epsilon_in_denominator", "o o_of", "l*", "1", "+#"},
    {"sink_missing_in_denominator", "o total", "", "sink~", "1"},
    {"split_base_mixed", "lse_of", "", "1", "log2e"},
    {"split_base_mixed", "lse_of", "", "1", "/log2e"},
    {"splits_averaged", "lse_of", "", "?", "0"},
    {"splits_averaged", "lse_of", "", "<v", "1"},
    {"splits_averaged", "lse_of", "", "1", "0"},
    {"splits_averaged", "o", "sum", "exp", "#"},
    {"splits_averaged", "o", "sum", "exp2", "#"},
    {"split_dropped", "lse_of", "", "?", "inf", "z"},
    {"o_of_other_head", "o", "", "*", "[h]"},
    {"o_of_other_head", "o", "< also", "*", "[h]"},
    {"zero_row_convention", "o lse", "", "<v", "1", "-"},
    {"zero_row_convention", "o", "", "0", "inf"},
    {"zero_row_convention", "lse", "", "inf", "inf"},
    {"o_precision", "o dq dk dv", "!product !sum", "?", "cast"},
    {"output_constant", "o dq dk dv", "", "1", "#", "-"},
    {"output_constant", "o", "< also", "1", "#", "-"},
    {"lse_in_other_base", "lse", "!m !log", "1", "log2e"},
    {"lse_in_other_base", "lse", "!m !log", "1", "/log2e"},
    {"lse_sign", "lse", "", "1", "-1"},
    {"lse_without_max", "lse", "", "m", "1"},
    {"lse_without_sum", "lse", "", "log", "1"},
    {"lse_without_log", "lse", "", "log", "l"},
    {"lse_sink_missing", "lse total", "", "sink~", "1", "-"},
    // Gradients.
    {"delta_missing", "ds", "", "-delta", "1"},
    {"delta_added", "ds", "", "-delta", "delta"},
    {"cap_derivative_missing", "ds", "", "minus", "1"},
    {"o_of_other_row", "delta", "", "o", "[i]"},
    {"o_of_other_row", "delta", "", "o", "[h]"},
    {"group_not_summed", "dk dv", "sum", "*", "0", "n"},
    {"group_of_other_heads", "dk dv", "sum", "?", "[g exchanged]"},
    {"not_transposed", "dk dv", "sum", "?", "[transposed]"},
};

/// Numbers that stand alone, are added or are least values are different words.
bool is_of_kind(ProgramOp joined_by, std::string_view word) {
    if (word == "#" || word == "one" || word == "constant" || word == "cap")
        return joined_by == ProgramOp::chosen;
    if (word == "+#") return joined_by == ProgramOp::plus;
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
        const ProgramNode& bound = program.node(condition.of[1]);
        if (bound.op == ProgramOp::times && program.node(bound.of[0]).op == ProgramOp::rest) return true;
        if (!is_comparison(condition.op) || program.node(condition.of[0]).op != ProgramOp::rest) return false;
        const bool is_first = (condition.op == ProgramOp::at_least && is_number(condition.of[1], 1)) ||
                              (condition.op == ProgramOp::more && is_number(condition.of[1], 0));
        return is_first || condition.op == ProgramOp::unequal;
    }

    bool has_number(const std::array<int, 3>& compared) const {
        return std::ranges::any_of(
            compared, [&](int of) { return of >= 0 && program.node(of).op == ProgramOp::number; });
    }

    bool is_where(int condition, bool is_elsewhere, std::string_view words) const {
        if (words.empty()) return true;
        if (words == "-") return condition < 0;
        if (condition < 0) return false;
        const ProgramOp op = program.node(condition).op;
        const bool is_end = op == ProgramOp::at_least || op == ProgramOp::more;
        if (has_word(words, ">=") && (is_elsewhere ? !is_upper(op) : !is_end)) return false;
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

/// The smallest parts that stand in each other's place as they are written.
void collect_changed(const Program& program, int was, int is, std::vector<std::string>& texts) {
    if (was == is || was < 0 || is < 0) return;
    const ProgramNode& one = program.node(was);
    const ProgramNode& other = program.node(is);
    const bool is_alike = one.op == other.op && one.what == other.what && one.op != ProgramOp::read &&
                          one.list == other.list && one.number == other.number &&
                          one.accumulation == other.accumulation;
    if (!is_alike) {
        if (!are_alike(program, was, is))
            texts.push_back(text_of_part(program, was) + " -> " + text_of_part(program, is));
        return;
    }
    for (std::size_t i = 0; i < one.of.size(); ++i) collect_changed(program, one.of[i], other.of[i], texts);
}

}  // namespace

std::vector<std::string> changed_parts(const Program& program, int declared, int becomes) {
    std::vector<std::string> texts;
    collect_changed(program, declared, becomes, texts);
    std::ranges::sort(texts);
    const auto doubled = std::ranges::unique(texts);
    texts.erase(doubled.begin(), doubled.end());
    return texts;
}

namespace {

/// Null: none.
const FormulaName* row_of_formula(const Program& program, const Problem& problem, double p_scale,
                                  const OtherFormula& formula) {
    const Named named{program, problem, p_scale, formula};
    const std::vector<FormulaPart> parts = changed_parts_of(program, formula.declared, formula.becomes);
    if (parts.empty()) return nullptr;
    for (const FormulaName& name : names) {
        if (has_word(name.around, "also") || !named.is(name, parts.front())) continue;
        const auto is_it = [&](const FormulaPart& part) {
            return std::ranges::any_of(names, [&](const FormulaName& other) {
                return other.name == name.name && named.is(other, part);
            });
        };
        if (std::ranges::all_of(parts, is_it)) return &name;
    }
    return nullptr;
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
    std::vector<std::string_view> all;
    for (const FormulaName& row : names) all.push_back(row.name);
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
    constexpr std::array<std::string_view, 3> open = {"#", "constant", "bound"};
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
