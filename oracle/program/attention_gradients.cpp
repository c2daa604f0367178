// The backward pass of attention behind its scores.

#include "oracle/program/attention_text.h"

namespace tilescope {

namespace {

/// An array with the head that stands for its own.
void read_at_head(std::string& formula, const std::string& name, const std::string& head,
                  const std::string& rest) {
    formula.replace(formula.find(name), name.size(), fmt::format("{}[b, {}, {}]", name, head, rest));
}

/// The sum that a gradient of q or k is, with each operand that kernels may multiply with.
template <class Sum>
std::string gradient_text(const AttentionText& of, const std::vector<GradientOperand>& operands,
                          const Sum& sum) {
    std::vector<std::string> all;
    for (const GradientOperand& operand : operands)
        all.push_back(times(sum(operand.name), factor_text(of.p.sm_scale / (of.u.ds_scale * operand.scale))));
    return all.size() == 1 ? all[0] : fmt::format("between({}, {})", all[0], all[1]);
}

/// `ds_name`: the stage in ds, which may be cast.
void write_gradients_of_keys(AttentionText& to, const std::string& ds_name, std::string ds, std::string p) {
    std::string axes = "b, h, j";
    std::string along = "i";
    std::string dout = to.dout;
    std::vector<GradientOperand> queries = to.q_in_gradients;
    if (!to.p.dkv_per_head) {
        // The query heads that read a KV head.
        const std::string head = to.p.is_interleaved() ? "n * kv_heads + g" : "g * heads_of_each + n";
        axes = "b, g, j";
        along = "n, i";
        for (GradientOperand& q : queries) q.name = fmt::format("{}[b, {}, i, d]", q.name, head);
        read_at_head(dout, to.dout, head, "i, e");
        read_at_head(ds, ds_name, head, "i, j");
        read_at_head(p, "p", head, "i, j");
    }
    const auto sum = [&](const std::string& q) {
        return fmt::format("sum({}: {} * {}){}", along, ds, q, added_up(to.u.dk_accumulation));
    };
    to.line("stage  dk[{}, d]{} = {}", axes, typed(to.p.dtype_dk), gradient_text(to, queries, sum));
    to.line("stage  dv[{}, e]{} = {}", axes, typed(to.p.dtype_dv),
            over(fmt::format("sum({}: {} * {}){}", along, p, dout, added_up(to.u.dv_accumulation)),
                 factor_text(to.u.p_scale)));
}

}  // namespace

void write_gradients(AttentionText& to) {
    const Units& u = to.u;
    const Problem& p = to.p;
    const Probabilities probability = name_probabilities(to);
    write_probability(to, probability, "lse", {{}, u.lse_log_base});
    write_cast(to, probability);
    const std::string v_factor = to.descale_of_v.empty() || to.v_has_descale ? "" : " * descale_v";
    to.line("stage  delta[b, h, i] = sum(e: {} * o)", to.dout);
    to.line("stage  dp[b, h, i, j] = sum(e: {} * {}{}){}", to.dout, to.v, v_factor,
            added_up(u.dp_accumulation));
    std::string slope;
    if (p.logits_soft_cap != 0) {
        to.line("stage  tangent[b, h, i, j] = {}", to.tangent);
        slope = " * (1.0 - tangent * tangent)";
    }
    const std::string before_cast = u.ds_from_cast_p ? probability.operand : probability.before_cast;
    const std::string formula =
        times(fmt::format("{} * (dp - delta){}", over(before_cast, factor_text(u.p_scale)),
                          u.ds_capped ? slope : ""),
              factor_text(u.ds_scale));
    to.line("stage  ds[b, h, i, j]{} = {} where {} > -inf else 0.0", typed(u.ds_cast), formula, to.score);
    const bool slope_is_left = !u.ds_capped && !slope.empty();
    if (slope_is_left) to.line("stage  whole_ds[b, h, i, j] = ds{}", slope);
    const std::string ds_name = slope_is_left ? "whole_ds" : "ds";
    std::string ds = ds_name;
    if (u.ds_cast != p.dtype_ds && p.dtype_ds != Dtype::f32)
        ds = fmt::format("{}({})", dtype_info(p.dtype_ds).name, ds);
    const auto sum = [&](const std::string& k) {
        return fmt::format("sum(j: {} * {}){}", ds, k, added_up(u.dq_accumulation));
    };
    to.line("stage  dq[b, h, i, d]{} = {}", typed(p.dtype_dq), gradient_text(to, to.k_in_gradients, sum));
    write_gradients_of_keys(to, ds_name, ds, probability.operand);
    to.line("output dq, dk, dv");
}

}  // namespace tilescope
