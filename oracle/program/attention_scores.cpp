// Inputs, operands and scores of attention: what both passes begin with.

#include <array>
#include <cmath>

#include "dump/schema/rounding.h"
#include "dump/schema/semantics.h"
#include "dump/schema/text.h"
#include "oracle/program/attention_text.h"

namespace tilescope {

namespace {

/// An operand in memory, and what a kernel does with it as it loads it.
struct OperandText {
    Stage stage;
    const char* name;     ///< of the input
    const char* staged;   ///< of the stage
    const char* row;      ///< axis
    const char* feature;  ///< axis
    Dtype dtype;
    const Descale& descale;
    bool is_dequantised;
    double scale;
    Dtype cast;

    std::string descale_name() const { return std::string("descale_") + staged; }
    std::vector<std::string> factors() const {
        std::vector<std::string> all;
        if (is_dequantised && !descale.empty()) all.push_back(descale_name());
        for (std::string& factor : factor_text(scale)) all.push_back(std::move(factor));
        return all;
    }
    std::string head(const AttentionText& of) const { return stage == Stage::q ? "h" : of.kv_head(); }
};

/// V that was not recorded is as its product takes it.
bool v_is_dequantised(const AttentionText& of) {
    if (!of.u.v_dequantised) return false;
    const bool product_lacks_descale = !of.u.acc_dequantised || of.u.p_descale_v != DescaleInP::none;
    return !of.is_forward() || of.recording.has_stage(Stage::v) || !product_lacks_descale;
}

std::array<OperandText, 3> operands_of(const AttentionText& of) {
    const SideInputs& side = of.recording.side_inputs();
    return {
        {{Stage::q, "Q", "q", "i", "d", of.p.dtype_q, side.descale_q, of.u.q_dequantised, of.u.q_scale,
          of.u.q_cast},
         {Stage::k, "K", "k", "j", "d", of.p.dtype_k, side.descale_k, of.u.k_dequantised, of.u.k_scale,
          of.u.k_cast},
         {Stage::v, "V", "v", "j", "e", of.p.dtype_v, side.descale_v, v_is_dequantised(of), 1, of.u.v_cast}}};
}

void write_descale(AttentionText& to, const OperandText& of) {
    if (of.descale.empty()) return;
    std::string indices;
    if (of.descale.heads > 0) indices = "[b, " + of.head(to);
    if (of.descale.per_channel()) {
        indices += fmt::format(", {}", of.feature);
    } else if (of.descale.per_block()) {
        to.line("sizes  rows_{}", of.staged);
        indices += fmt::format(", {} / rows_{}", of.row, of.staged);
    }
    to.line("input  {}{}{}", of.descale_name(), indices, indices.empty() ? "" : "]");
}

/// An element of a copy that each query block has.
std::string read_of_block(const OperandText& of, const std::string& name) {
    return fmt::format("{}[b, h, i / block_m, {}, {}]", name, of.row, of.feature);
}

/// What the kernel holds of an operand: the input, what it staged, or what it makes of it.
std::string operand_text(AttentionText& to, const OperandText& of) {
    std::vector<std::string> factors = of.factors();
    // A sum over channels cannot take their descales afterwards: q takes those of k.
    const bool takes_channels =
        of.stage == Stage::q && !to.u.k_dequantised && to.recording.side_inputs().descale_k.per_channel();
    if (takes_channels) factors.emplace_back("descale_k");
    const bool is_recorded = to.recording.has_stage(of.stage);
    if (!is_recorded && factors.empty()) return of.name;
    const Dtype dtype = factors.empty() ? of.dtype : of.cast;
    // k and v are staged anew for each query block.
    const bool is_copy = is_recorded && of.stage != Stage::q;
    to.line("stage  {}[b, h, {}{}, {}]{} = {}", of.staged, is_copy ? "t, " : "", of.row, of.feature,
            typed(dtype), times(of.name, factors));
    return is_copy ? read_of_block(of, of.staged) : of.staged;
}

/// What gradients, which are those of dequantised operands, multiply with.
std::vector<GradientOperand> gradient_operands(AttentionText& to, const OperandText& of,
                                               const std::string& held) {
    std::vector<GradientOperand> all{{held, of.scale}};
    const bool lacks_descale = !of.is_dequantised && !of.descale.empty();
    if (lacks_descale) {
        const bool is_copy = to.recording.has_stage(of.stage) && of.stage != Stage::q;
        const std::string name = fmt::format("{}_whole", of.staged);
        to.line("stage  {}[b, h, {}{}, {}] = {} * {}", name, is_copy ? "t, " : "", of.row, of.feature,
                is_copy ? of.staged : held, of.descale_name());
        all[0].name = is_copy ? read_of_block(of, name) : name;
    }
    if (of.scale == 1) return all;
    all.push_back({of.name, 1});
    if (of.descale.empty()) return all;
    all[1].name = fmt::format("{}_unscaled", of.staged);
    to.line("stage  {}[b, h, {}, {}]{} = {} * {}", all[1].name, of.row, of.feature,
            lacks_descale ? "" : typed(of.cast), of.name, of.descale_name());
    return all;
}

/// "x + 3"
std::string moved(const std::string& x, std::int64_t by) {
    return by == 0 ? x : fmt::format("{} {} {}", x, by < 0 ? '-' : '+', std::abs(by));
}

std::string row_text(const AttentionText& of) {
    return position_text(of.p.shard.q_positions, "i", "row").text;
}

std::string key_text(const AttentionText& of) {
    return position_text(of.p.shard.kv_positions, "j", "key").text;
}

/// What is added to a row's position, so that the last row's diagonal is at the last key.
std::string alignment_text(const AttentionText& of) {
    if (of.p.causal_alignment != CausalAlignment::bottom_right) return "";
    if (of.has_lengths()) return " + diagonal";
    return of.p.shard.is_part() ? " + whole_kv - whole_q" : " + seqlen_kv - seqlen_q";
}

/// A condition of how far right of the diagonal a key is. Lengths are no whole numbers of the language, and
/// nothing is added to them: that would be rounded.
std::string right_of_diagonal(const AttentionText& of, std::string_view comparison, std::int64_t most) {
    const bool is_shifted = of.p.causal_alignment == CausalAlignment::bottom_right;
    const std::int64_t distance = most + of.p.diagonal_offset;
    if (is_shifted && of.has_lengths())
        return fmt::format("{} {} diagonal", moved("j - i", -distance), comparison);
    return fmt::format("{} {} {}", key_text(of), comparison,
                       moved(row_text(of) + alignment_text(of), distance));
}

/// Keys and rows that a batch entry has.
std::vector<std::string> within_lengths(const AttentionText& of) {
    const SideInputs& side = of.recording.side_inputs();
    std::vector<std::string> parts;
    if (!side.seqlens_kv.empty()) parts.emplace_back("j < length_kv");
    if (!side.seqlens_q.empty() && !of.is_forward()) parts.emplace_back("i < length_q");
    return parts;
}

/// What mask and windows show.
std::vector<std::string> seen_through_mask(const AttentionText& of) {
    std::vector<std::string> parts;
    const std::int64_t bound = of.p.window_bounds == WindowBounds::inclusive ? 0 : 1;
    if (of.p.mask == Mask::causal) parts.push_back(right_of_diagonal(of, "<=", 0));
    if (of.p.window_right >= 0) parts.push_back(right_of_diagonal(of, "<=", of.p.window_right - bound));
    if (of.p.window_left >= 0) parts.push_back(right_of_diagonal(of, ">=", bound - of.p.window_left));
    return parts;
}

/// A score with what stands in its place where it is hidden: beyond the lengths there is none.
std::string masked_text(const AttentionText& of, const std::string& formula, const std::string& hidden) {
    if (hidden == "-inf" && !visible_text(of).empty())
        return fmt::format("{} where {} else -inf", formula, visible_text(of));
    const std::string mask = joined(seen_through_mask(of), " and ");
    const std::string lengths = joined(within_lengths(of), " and ");
    const std::string shown =
        mask.empty() ? formula : fmt::format("{} where {} else {}", formula, mask, hidden);
    return lengths.empty() ? shown : fmt::format("({}) where {} else -inf", shown, lengths);
}

/// " + bias", in a unit.
std::string bias_text(const AttentionText& of, const ScoreUnit& unit) {
    std::string text;
    // Kernels take the slope of the distance, or of key and diagonal apart, which is never rounded less.
    if (of.p.alibi != Alibi::none) {
        const std::string slope = converted("slope", {}, unit);
        const std::string diagonal = moved(row_text(of) + alignment_text(of), of.p.diagonal_offset);
        const std::string distance = fmt::format("{} * {} - {} * ({})", slope, key_text(of), slope, diagonal);
        // Together, since it is one number of the kernel.
        text += of.p.alibi == Alibi::linear ? " + (" + distance + ")" : fmt::format(" - abs({})", distance);
    }
    if (of.recording.has_bias()) text += " + " + converted("bias", {}, unit);
    return text;
}

/// The factors that make a sum of products a score.
std::vector<std::string> product_factors(const AttentionText& of) {
    std::vector<std::string> factors = factor_text(product_scale(of.p, of.u));
    for (const OperandText& operand : operands_of(of)) {
        if (operand.stage != Stage::v && !operand.is_dequantised && !operand.descale.empty() &&
            !operand.descale.per_channel())
            factors.push_back(operand.descale_name());
    }
    return factors;
}

/// What the last multiplication before the softmax multiplies with.
std::vector<std::string> last_factors(const AttentionText& of, bool is_capped) {
    return is_capped ? factor_text(of.p.logits_soft_cap) : product_factors(of);
}

std::string capped_text(const AttentionText& of, const std::string& natural) {
    return fmt::format("tanh({} / {})", natural, number_text(of.p.logits_soft_cap));
}

/// The tangent as the kernel's own function has it.
std::string write_tangent(AttentionText& to, const std::string& tangent) {
    if (to.u.s_tanh == TanhFunction::tanhf) return tangent;
    const double off = tanh_function_bound(to.u.s_tanh);
    to.line("stage  exact_tanh[b, h, i, j] = {}", tangent);
    return fmt::format("between(exact_tanh * {}, exact_tanh * {})", number_text(1 - off),
                       number_text(1 + off));
}

}  // namespace

void write_inputs(AttentionText& to) {
    const Problem& p = to.p;
    const bool forward = to.is_forward();
    to.line(
        "axes   b: batch; h: heads; i: seqlen_q by block_m; j: seqlen_kv by block_n; d: head_dim; e: "
        "head_dim_v");
    if (forward && p.l_lanes > 1) to.line("axes   w: lanes");
    if (forward && p.is_split()) to.line("axes   z: splits");
    to.line("sizes  {}", p.is_interleaved() ? "heads_kv" : "group");
    if (!forward && !p.dkv_per_head) to.line("axes   g: kv_heads; n: heads_of_each");
    for (const OperandText& of : operands_of(to)) {
        to.line("input  {}[b, {}, {}, {}]{}", of.name, of.head(to), of.row, of.feature, typed(of.dtype));
        write_descale(to, of);
    }
    const SideInputs& side = to.recording.side_inputs();
    if (!side.seqlens_kv.empty()) to.line("input  length_kv[b]");
    if (!side.seqlens_q.empty() && !forward) to.line("input  length_q[b]");
    if (to.has_lengths() && p.causal_alignment == CausalAlignment::bottom_right)
        to.line("input  diagonal[b]");
    for (const auto& [name, size] : position_sizes(p)) to.line("sizes  {}", name);
    if (p.alibi != Alibi::none) to.line("input  slope[b, h]");
    if (to.recording.has_bias()) to.line("input  bias[b, h, i, j]");
    if (p.sink != AttentionSink::none) to.line("input  sink[h]");
    if (!forward) to.line("input  dO[b, h, i, e]{}; o[b, h, i, e]; lse[b, h, i]", typed(p.dtype_dout));
}

void write_operands(AttentionText& to) {
    const auto is_copied = [&](Stage stage) { return to.recording.has_stage(stage); };
    if (is_copied(Stage::k) || is_copied(Stage::v)) to.line("axes   t: q_blocks");
    const auto operands = operands_of(to);
    to.q = operand_text(to, operands[0]);
    to.k = operand_text(to, operands[1]);
    to.v = operand_text(to, operands[2]);
    if (!to.is_forward()) {
        to.dout = "dO";
        if (is_copied(Stage::dout)) {
            to.dout = "dout";
            to.line("stage  dout[b, h, i, e]{} = dO", typed(to.p.dtype_dout));
        }
        to.q_in_gradients = gradient_operands(to, operands[0], to.q);
        to.k_in_gradients = gradient_operands(to, operands[1], to.k);
    }
    if (!operands[2].descale.empty()) to.descale_of_v = operands[2].descale_name();
    to.v_has_descale = operands[2].is_dequantised;
}

std::string visible_text(const AttentionText& of) {
    std::vector<std::string> parts = within_lengths(of);
    for (std::string& part : seen_through_mask(of)) parts.push_back(std::move(part));
    return joined(parts, " and ");
}

bool hides_with_number(const AttentionText& of) {
    return of.is_forward() && masks_with_number(of.u) && !seen_through_mask(of).empty();
}
ScoreUnit unit_of_max(const AttentionText& of) {
    if (!of.is_forward()) return {};
    const bool is_capped = of.p.logits_soft_cap != 0;
    return {of.u.m_scaled ? std::vector<std::string>() : last_factors(of, is_capped), of.u.m_log_base};
}

/// The steps from the product to the score that the softmax takes: s is what stands after some of them.
void write_scores(AttentionText& to) {
    const Units& u = to.u;
    const bool caps = to.p.logits_soft_cap != 0;
    const bool cap_is_in_s = caps && u.s_capped;
    const bool cap_is_left = caps && !u.s_capped;
    const bool bias_is_in_s = to.is_biased() && u.s_biased && !cap_is_left;
    const bool bias_is_left = to.is_biased() && !bias_is_in_s;

    const ScoreUnit of_s{u.s_scaled ? std::vector<std::string>() : last_factors(to, cap_is_in_s),
                         u.s_log_base};
    const ScoreUnit of_product{product_factors(to), LogBase::e};
    const ScoreUnit of_tangent{last_factors(to, true), LogBase::e};
    std::string formula = fmt::format("sum(d: {} * {}){}", to.q, to.k, added_up(u.s_accumulation));
    if (cap_is_in_s)
        formula = to.tangent = write_tangent(to, capped_text(to, converted(formula, of_product, {})));
    formula = converted(formula, cap_is_in_s ? of_tangent : of_product, of_s);
    if (bias_is_in_s) formula += bias_text(to, of_s);
    to.line("stage  s[b, h, i, j]{} = {}", typed(u.s_cast),
            u.s_masked ? masked_text(to, formula, number_text(u.s_masked_value)) : formula);
    to.score = "s";
    to.score_unit = of_s;
    // A capped -inf is finite again, and a number with a bias is another one. P of a backward pass is 0 anyway.
    const bool has_number = masks_with_number(u);
    const bool mask_is_left =
        !visible_text(to).empty() &&
        (!u.s_masked || cap_is_left || (has_number && (bias_is_left || !to.is_forward())));
    if (!cap_is_left && !bias_is_left && !mask_is_left) return;

    formula = "s";
    if (cap_is_left) {
        to.score_unit = unit_of_max(to);
        to.tangent = write_tangent(to, capped_text(to, converted("s", of_s, {})));
        formula = converted(to.tangent, of_tangent, to.score_unit);
    }
    if (bias_is_left) formula += bias_text(to, to.score_unit);
    const std::string hidden =
        has_number && to.is_forward() ? converted(number_text(masked_score(u)), of_s, to.score_unit) : "-inf";
    to.line("stage  x[b, h, i, j] = {}", mask_is_left ? masked_text(to, formula, hidden) : formula);
    to.score = "x";
}

}  // namespace tilescope
