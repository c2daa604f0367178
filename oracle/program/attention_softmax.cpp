// The running softmax of attention: m, p, l and acc.

#include <cmath>

#include "oracle/program/attention_state.h"

namespace tilescope {

namespace {

/// Which rows have seen a score by now: where none has been seen, hidden scores are scores like others.
void write_seen(AttentionText& to, const StateText& state) {
    if (!state.has_seen()) return;
    to.line("stage  seen[b, h, i] {} = max({}, max(j: 1.0 where {} and {} > -inf else 0.0))", state.over(),
            state.carried_in_split("seen", "0.0"), visible_text(to), to.score);
}

/// In place of the maximum so far FlashAttention-1 goes on from the log-sum-exp so far.
std::string max_before(AttentionText& to, const StateText& state) {
    const ScoreUnit unit = unit_of_max(to);
    if (!to.u.m_from_lse) return state.carried("m", state.start(converted("sink", {}, unit), "-inf").anew);
    const ScoreUnit logarithm{{}, unit.base};
    const std::string lse = log_sum_exp_text(to, "m.before", sum_of_row(to, ".before"));
    to.line("stage  lse_before[b, h, i] {} = {}", state.over(),
            state.carried(unit.factors.empty() ? lse : converted("(" + lse + ")", logarithm, unit),
                          state.start(converted("sink", {}, unit), "-inf").anew));
    return "lse_before";
}

void write_max(AttentionText& to, const StateText& state) {
    const ScoreUnit unit = unit_of_max(to);
    const std::string before = max_before(to, state);
    std::string now = fmt::format("max(j: {})", converted(to.score, to.score_unit, unit));
    if (to.u.m_offset != 0)
        now += fmt::format(" {} {}", to.u.m_offset < 0 ? '-' : '+',
                           converted(number_text(std::abs(to.u.m_offset)), {}, unit));
    std::string next = fmt::format("max({}, {})", before, now);
    if (const StaleMax stale = stale_max(to); stale.threshold > 0 && stale.is_shown)
        next = fmt::format("between(max({}, {} - {}), {})", before, now,
                           converted(number_text(stale.threshold), {}, unit), next);
    to.line("stage  m[b, h, i] {} = {} from {}", state.over(), next,
            state.start(converted("sink", {}, unit), "-inf").first);
}

/// The factor that takes what is relative to m before the block to m. Of a maximum that goes on from the log-sum-exp: that
/// takes 1 to the sum so far.
void write_rescaling(AttentionText& to, const StateText& state) {
    const ScoreUnit unit = unit_of_max(to);
    const std::string before =
        to.u.m_from_lse ? "lse_before"
                        : state.carried("m.before", state.start(converted("sink", {}, unit), "-inf").anew);
    write_exponential(
        to, "rescale[b, h, i] " + state.over(),
        fmt::format("{} where {} > -inf else 0.0", exponential_text(before, unit, "m", unit), before));
}

/// What P is relative to: m, or the maximum of its tile. Then " * to_m" takes it to m.
std::string write_own_max(AttentionText& to, const StateText& state) {
    if (!to.u.p_of_tile_max) return "m";
    to.line("stage  own_max[b, h, i] {} = max(j: {})", state.over(), to.score);
    to.line("stage  to_m[b, h, i] {} = {} where own_max > -inf else 0.0", state.over(),
            exponential_text("own_max", to.score_unit, "m", unit_of_max(to)));
    return "own_max";
}

/// exp(0) of each column beyond the last key, which kernels that mask with a number may add up before the row sees a score.
std::string padding_text(const AttentionText& of, const StateText& state) {
    const bool is_even = of.p.seqlen_kv % of.p.block_n == 0 && of.recording.side_inputs().seqlens_kv.empty();
    if (!state.has_seen() || is_even) return "";
    const char* const keys = of.recording.side_inputs().seqlens_kv.empty() ? "seqlen_kv" : "length_kv";
    return fmt::format(" + between(0.0, {} where j < {} and j + block_n > {} and seen == 0.0 else 0.0)",
                       times(fmt::format("1.0 * (j + block_n - {})", keys), factor_text(of.u.l_scale)), keys,
                       keys);
}

void write_sum(AttentionText& to, const StateText& state, const Probabilities& p) {
    const Units& u = to.u;
    std::vector<std::string> factors = factor_text(u.l_scale / u.p_scale);
    if (u.p_of_tile_max) factors.emplace_back("to_m");
    const std::string summed = u.l_sums_cast_p ? p.operand : p.before_cast;
    const bool has_lanes = to.p.l_lanes > 1;
    const std::string sum = has_lanes ? fmt::format("sum(j: {} where j % block_n / {} % lanes == w else 0.0)",
                                                    summed, to.p.l_lane_columns)
                                      : fmt::format("sum(j: {})", summed);
    const auto [start, anew] = state.start(number_text(u.l_scale), "0.0");
    // The sum so far may be in the exponent already.
    const std::string before =
        u.m_from_lse ? times("rescale", factor_text(u.l_scale)) : state.carried("l", anew) + " * rescale";
    to.line("stage  l[b, h, i{}] {} = {} + {}{} from {}", has_lanes ? ", w" : "", state.over(), before,
            times(sum, factors), padding_text(to, state), start);
}

/// P V, with the descale of V where acc has it.
std::string product_text(const AttentionText& of, const std::string& operand) {
    const Units& u = of.u;
    const bool has_descale = of.descale_of_v.empty() || of.v_has_descale;
    const bool in_sum = !has_descale && u.p_descale_v == DescaleInP::none && u.acc_dequantised;
    const bool taken_off = has_descale && !of.descale_of_v.empty() && !u.acc_dequantised;
    std::vector<std::string> factors = factor_text(u.acc_scale / u.p_scale);
    if (u.p_of_tile_max && !u.p_normalised) factors.emplace_back("to_m");
    const std::string sum = fmt::format("sum(j: {} * {}{}){}", operand, of.v, in_sum ? " * descale_v" : "",
                                        added_up(u.acc_accumulation));
    return times(taken_off ? sum + " / descale_v" : sum, factors);
}

/// acc, or that over l: then it is multiplied with l before the block, and divided by l after it.
void write_accumulator(AttentionText& to, const StateText& state, const Probabilities& p) {
    const Units& u = to.u;
    const std::string l = over(sum_of_row(to), factor_text(u.l_scale));
    const std::string l_before = over(sum_of_row(to, ".before"), factor_text(u.l_scale));
    std::string before = state.carried("acc", "0.0") + " * rescale";
    std::string now = product_text(to, p.operand);
    if (u.acc_normalised && !u.m_from_lse) before += " * " + l_before;
    if (!u.acc_normalised && u.m_from_lse)
        before = fmt::format("({} / {} where {} > 0.0 else 0.0)", before, l_before, l_before);
    if (u.acc_normalised && u.p_normalised) before += " / " + l;
    if (!u.acc_normalised && u.p_normalised) now += " * " + l;
    std::string next = fmt::format("{} + {}", before, now);
    if (u.acc_normalised && !u.p_normalised) next = fmt::format("({}) / {}", next, l);
    if (u.acc_normalised) next += fmt::format(" where {} > 0.0 else 0.0", sum_of_row(to));
    to.line("stage  acc[b, h, i, e] {}{} = {}", state.over(), typed(to.p.dtype_acc), next);
}

}  // namespace

void write_softmax(AttentionText& to) {
    const StateText state(to);
    write_seen(to, state);
    write_max(to, state);
    write_rescaling(to, state);
    const std::string relative_to = write_own_max(to, state);
    const ScoreUnit unit = to.u.p_of_tile_max ? to.score_unit : unit_of_max(to);
    const Probabilities p = name_probabilities(to);
    write_probability(to, p, relative_to, unit);
    if (!to.u.p_normalised) write_cast(to, p);
    write_sum(to, state, p);
    if (to.u.p_normalised) write_cast(to, p);
    write_accumulator(to, state, p);
    write_outputs(to, state);
}

}  // namespace tilescope
