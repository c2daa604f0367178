#include <fmt/format.h>

#include <array>
#include <random>

#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

namespace {

struct SoftmaxUnits {
    std::string_view name;
    bool s_scaled;
    LogBase s_log_base;
    bool m_scaled;
    LogBase m_log_base;
    ExpFunction exp;
};

constexpr std::array<SoftmaxUnits, softmaxes> softmax_units = {{
    {"natural", true, LogBase::e, true, LogBase::e, ExpFunction::expf},
    {"natural_contracted", true, LogBase::e, true, LogBase::e, ExpFunction::expf},
    {"natural_exp2", true, LogBase::e, true, LogBase::e, ExpFunction::exp2f},
    {"natural_fast", true, LogBase::e, true, LogBase::e, ExpFunction::fast_expf},
    {"raw_exp", false, LogBase::e, false, LogBase::e, ExpFunction::expf},
    {"raw_exp2", false, LogBase::e, false, LogBase::e, ExpFunction::ex2_approx},
    {"raw_exp2_unfused", false, LogBase::e, false, LogBase::e, ExpFunction::exp2f},
    {"base_two", true, LogBase::two, true, LogBase::two, ExpFunction::exp2f},
    {"raw_with_base_two_max", false, LogBase::e, true, LogBase::two, ExpFunction::ex2_approx},
    {"natural_with_base_two_max", true, LogBase::e, true, LogBase::two, ExpFunction::exp2f},
}};

}  // namespace

Arithmetic random_arithmetic(std::uint64_t seed) {
    std::mt19937_64 random(seed * 40503u + 3);
    const auto coin = [&] { return random() % 2 == 0; };
    Arithmetic a;
    // The seed walks through the softmaxes, so that a run of a hundred has all of them.
    a.softmax = Softmax(seed % softmaxes);
    a.score_sum = Sum(random() % sums);
    a.lanes = std::int64_t(1) << (random() % 6);
    a.worst_exp = coin();
    a.separate_pv = coin();
    a.reciprocal = coin();
    a.approximate = coin();
    a.skips_hidden_tiles = coin();
    a.dumps_unmasked_s = random() % 4 == 0;
    a.p_operand = std::array{Dtype::f32, Dtype::f16, Dtype::bf16}[random() % 3];
    // Tensor cores take no float32 operand.
    a.pv_sum = a.p_operand == Dtype::f32 ? Sum(random() % 4) : Sum(random() % sums);
    a.dumps_cast_p = coin();
    a.l_sums_cast_p = coin();
    a.lse_log_base = coin() ? LogBase::two : LogBase::e;
    a.kv_order = random() % 4 == 0 ? KvOrder::reverse : KvOrder::forward;
    return a;
}

std::string describe(const Arithmetic& a) {
    const auto loading = [](const Loading& l) {
        return l.dequantises ? std::string(dtype_info(l.cast).name) : "raw";
    };
    std::string text = fmt::format(
        "{} score_sum {} pv_sum {} device {} lanes {} worst_exp {} exp_error {} separate_pv {} reciprocal {} "
        "approximate {} skips {} tanh {} separate_alibi {} stale {} q {} k {} v {} acc_dequantised {}",
        softmax_units[std::size_t(a.softmax)].name, int(a.score_sum), int(a.pv_sum), a.compute_capability,
        a.lanes, a.worst_exp, a.exp_error, a.separate_pv, a.reciprocal, a.approximate, a.skips_hidden_tiles,
        int(a.tanh), a.separate_alibi, a.stale_threshold, loading(a.q), loading(a.k), loading(a.v),
        a.acc_dequantised);
    text += fmt::format(
        " p {} p_scale {} in_exponent {} l_scaled {} acc_scaled {} sink_rescales {} unmasked_s {} masked_s "
        "{} kept_s {} uncapped_s "
        "{} unbiased_s {} dumps_cast_p {} l_sums_cast_p {} empty {},{} lse with sink {} base {} order {}",
        dtype_info(a.p_operand).name, a.p_scale, a.p_scale_in_exponent, a.l_scaled, a.acc_scaled,
        a.sink_rescales, a.dumps_unmasked_s, a.masked_s, dtype_info(a.kept_s).name, a.dumps_uncapped_s,
        a.dumps_unbiased_s, a.dumps_cast_p, a.l_sums_cast_p, int(a.o_empty_row), int(a.lse_empty_row),
        a.lse_includes_sink, a.lse_log_base == LogBase::two ? "two" : "e",
        a.kv_order == KvOrder::reverse ? "reverse" : "forward");
    return text;
}

Units units_of(const Arithmetic& a, const SideInputs& side) {
    const SoftmaxUnits& softmax = softmax_units[std::size_t(a.softmax)];
    Units units;
    units.q_dequantised = a.q.dequantises;
    units.k_dequantised = a.k.dequantises;
    units.v_dequantised = a.v.dequantises;
    units.q_scale = double(a.q.scale);
    units.k_scale = double(a.k.scale);
    units.q_cast = a.q.cast_of(side.descale_q);
    units.k_cast = a.k.cast_of(side.descale_k);
    units.v_cast = a.v.cast_of(side.descale_v);
    units.s_scaled = softmax.s_scaled;
    units.s_capped = !a.dumps_uncapped_s;
    units.s_tanh = a.tanh;
    units.s_biased = !a.dumps_unbiased_s;
    units.s_masked = !a.dumps_unmasked_s;
    units.s_masked_value = double(a.masked_s);
    units.s_cast = a.kept_s;
    units.s_log_base = softmax.s_log_base;
    units.s_accumulation = accumulation_of(a.score_sum);
    units.m_scaled = softmax.m_scaled;
    units.m_log_base = softmax.m_log_base;
    units.m_stale_threshold = a.stale_threshold;
    units.p_exp = softmax.exp;
    units.p_exp_error = a.exp_error;
    units.p_cast = a.dumps_cast_p ? a.p_operand : Dtype::f32;
    units.p_scale = a.p_scale;
    units.p_descale_v = a.p_descale;
    units.l_sums_cast_p = a.l_sums_cast_p;
    units.l_scale = a.l_scaled ? a.p_scale : 1;
    units.acc_accumulation = accumulation_of(a.pv_sum);
    units.acc_scale = a.acc_scaled ? a.p_scale : 1;
    units.acc_dequantised = a.acc_dequantised;
    units.o_empty_row = a.o_empty_row;
    units.lse_log_base = a.lse_log_base;
    units.lse_empty_row = a.lse_empty_row;
    units.lse_includes_sink = a.lse_includes_sink;
    units.kv_order = a.kv_order;
    units.dp_accumulation = accumulation_of(a.dp_sum);
    units.ds_from_cast_p = a.ds_from_cast_p;
    units.ds_capped = !a.dumps_uncapped_ds;
    units.ds_cast = a.dumps_cast_ds ? a.ds_operand : Dtype::f32;
    units.ds_scale = a.ds_scale;
    units.dq_accumulation = accumulation_of(a.dq_sum);
    units.dk_accumulation = accumulation_of(a.dk_sum);
    units.dv_accumulation = accumulation_of(a.dv_sum);
    return units;
}

}  // namespace tilescope::test
