// What the running state of attention becomes: o and lse, of one split or of several that are merged.

#include "oracle/program/attention_state.h"

namespace tilescope {

namespace {

/// acc over what it is divided by, with the scales and the descale that are left.
std::string normalised_text(const AttentionText& of, const std::string& acc, const std::string& l) {
    std::vector<std::string> factors = factor_text(of.u.l_scale / of.u.acc_scale);
    if (!of.u.acc_dequantised && !of.descale_of_v.empty()) factors.emplace_back("descale_v");
    return fmt::format("{} / {}", times(acc, factors), l);
}

/// acc without l.
std::string whole_acc(const AttentionText& of, const std::string& acc, const std::string& l) {
    return of.u.acc_normalised ? times(fmt::format("{} * {}", acc, l), factor_text(1 / of.u.l_scale)) : acc;
}

/// An exponential by which a state is multiplied, with what the kernel's own function may be off by.
std::string own_exponential(const AttentionText& of, const std::string& exponential) {
    const double off = of.u.p_exp_error;
    if (off == 0) return exponential;
    return fmt::format("{} * between({}, {})", exponential, number_text(1 - off), number_text(1 + off));
}

/// A sink that comes last is one more term of l, and may be the largest score.
void write_last_sink(AttentionText& to, const std::string& m, const std::string& l) {
    const ScoreUnit unit = unit_of_max(to);
    const std::string sink = converted("sink", {}, unit);
    to.line("stage  top[b, h, i] = max({}, {})", m, sink);
    to.line("stage  falls[b, h, i] = {} where {} > 0.0 else 0.0",
            own_exponential(to, exponential_text(m, unit, "top", unit)), l);
    to.line("stage  total[b, h, i] = {} * falls + {}", l,
            times(own_exponential(to, exponential_text(sink, unit, "top", unit)), factor_text(to.u.l_scale)));
}

void write_outputs_of_one(AttentionText& to, const StateText& state) {
    const Units& u = to.u;
    const std::string dtype = typed(to.p.dtype_o);
    const bool sink_last = to.p.sink == AttentionSink::last;
    const StateText::Start of_m = state.start(converted("sink", {}, unit_of_max(to)), "-inf");
    const StateText::Start of_l = state.start(number_text(u.l_scale), "0.0");
    const std::string m = state.at_end("m", of_m.first);
    const std::string acc = state.at_end("acc", "0.0");
    // What o is divided by is what lse is the logarithm of: a mistake in it is one.
    to.line("stage  l_row[b, h, i] = {}",
            state.has_seen() ? state.at_end(sum_of_row(to), of_l.first) : sum_of_row(to));
    const std::string l = "l_row";
    if (sink_last) {
        write_last_sink(to, m, l);
        to.line("stage  o[b, h, i, e]{} = {} where {} > 0.0 else 0.0", dtype,
                normalised_text(to, whole_acc(to, acc, l) + " * falls", "total"), l);
    } else if (u.acc_normalised) {
        to.line("stage  o[b, h, i, e]{} = {} where {} > 0.0 else {}", dtype,
                times(acc, factor_text(1 / u.acc_scale)), l, empty_row_text(u.o_empty_row));
    } else {
        to.line("stage  o[b, h, i, e]{} = {} where {} > 0.0 else {}", dtype, normalised_text(to, acc, l), l,
                empty_row_text(u.o_empty_row));
    }
    if (sink_last && u.lse_includes_sink)
        to.line("stage  lse[b, h, i] = {}", lse_text(to, "top", "total"));
    else
        to.line("stage  lse[b, h, i] = {} where {} > 0.0 else {}", lse_text(to, m, l), l,
                empty_row_text(u.lse_empty_row));
}

/// The logarithm of the sum over the splits, and over the sink: -inf where there is nothing.
void write_merged_lse(AttentionText& to, const std::string& name, bool with_sink) {
    const LogBase base = to.u.lse_log_base;
    const std::string sink = converted("sink", {}, {{}, base});
    const auto of_top = [&](const std::string& lse) {
        return own_exponential(to, fmt::format("{}({} - top_{})", exponential_name(base), lse, name));
    };
    to.line("stage  top_{}[b, h, i] = {}", name,
            with_sink ? fmt::format("max(max(z: lse_of), {})", sink) : "max(z: lse_of)");
    to.line(
        "stage  {}[b, h, i] = top_{} + {}(sum(z: {} where lse_of > -inf else 0.0){}) where top_{} > -inf "
        "else -inf",
        name, name, logarithm_name(base), of_top("lse_of"), with_sink ? " + " + of_top(sink) : "", name);
}

/// Whether a row of a split has seen a score; empty: that is not asked.
std::string has_seen(const StateText& state) {
    return state.has_seen() ? fmt::format("seen{} > 0.0", state.ended()) : "";
}

/// What a split has at its end.
void write_ends_of_splits(AttentionText& to, const StateText& state) {
    const Units& u = to.u;
    const std::string l = sum_of_row(to, state.ended());
    // Rows of a split that have seen no score are left out of the merge, but for a sink that comes first.
    const std::string seen = has_seen(state);
    const bool has_sink = to.p.sink == AttentionSink::first;
    const auto of_seen = [&](const std::string& value, const std::string& sink, const std::string& nothing) {
        if (seen.empty()) return value;
        const std::string start =
            has_sink ? fmt::format("({} where z == 0 else {})", sink, nothing) : nothing;
        return fmt::format("{} where {} else {}", value, seen, start);
    };
    to.line("stage  m_of[b, h, z, i] = {}",
            of_seen("m" + state.ended(), converted("sink", {}, unit_of_max(to)), "-inf"));
    to.line("stage  l_of[b, h, z, i] = {}", of_seen(l, number_text(u.l_scale), "0.0"));
}

/// States are merged: weights go by the maxima of splits, and o is over the sum of what is so weighted.
void write_merge_of_states(AttentionText& to, const StateText& state) {
    const ScoreUnit unit = unit_of_max(to);
    const std::string seen = has_seen(state);
    write_ends_of_splits(to, state);
    to.line("stage  acc_of[b, h, z, i, e] = acc{}{}", state.ended(),
            seen.empty() ? "" : fmt::format(" where {} else 0.0", seen));
    to.line("stage  top[b, h, i] = max(z: m_of)");
    to.line("stage  weight[b, h, z, i] = {} where m_of > -inf else 0.0",
            exponential_text("m_of", unit, "top", unit));
    to.line("stage  total[b, h, i] = sum(z: weight * l_of)");
    to.line("stage  o[b, h, i, e]{} = {} where total > 0.0 else {}", typed(to.p.dtype_o),
            normalised_text(to, "sum(z: weight * acc_of)", "total"), empty_row_text(to.u.o_empty_row));
    to.line("stage  lse[b, h, i] = {} where total > 0.0 else {}", lse_text(to, "top", "total"),
            empty_row_text(to.u.lse_empty_row));
}

/// Each split leaves its o and lse; these are merged.
void write_merge_of_outputs(AttentionText& to, const StateText& state) {
    const Units& u = to.u;
    const std::string acc = whole_acc(to, "acc" + state.ended(), "l_of");
    const std::string seen = has_seen(state);
    write_ends_of_splits(to, state);
    to.line("stage  lse_of[b, h, z, i] = {} where l_of > 0.0 else -inf", lse_text(to, "m_of", "l_of"));
    to.line("stage  o_of[b, h, z, i, e]{} = {} where l_of > 0.0{} else 0.0", typed(to.p.dtype_partial_o),
            normalised_text(to, acc, "l_of"), seen.empty() ? "" : " and " + seen);
    const bool sink_last = to.p.sink == AttentionSink::last;
    const bool lse_has_sink = !sink_last || u.lse_includes_sink;
    write_merged_lse(to, "whole", sink_last);
    if (!lse_has_sink) write_merged_lse(to, "of_keys", false);
    to.line(
        "stage  o[b, h, i, e]{} = sum(z: ({} where lse_of > -inf else 0.0) * o_of) where "
        "whole > -inf else {}",
        typed(to.p.dtype_o), own_exponential(to, exponential_name(u.lse_log_base) + "(lse_of - whole)"),
        empty_row_text(u.o_empty_row));
    const char* const lse = lse_has_sink ? "whole" : "of_keys";
    to.line("stage  lse[b, h, i] = {} where {} > -inf else {}", lse, lse, empty_row_text(u.lse_empty_row));
}

}  // namespace

void write_outputs(AttentionText& to, const StateText& state) {
    if (!to.p.is_split())
        write_outputs_of_one(to, state);
    else if (to.merged_from == MergedFrom::states)
        write_merge_of_states(to, state);
    else
        write_merge_of_outputs(to, state);
    to.line("output o, lse");
}

}  // namespace tilescope
