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

struct MistakeInfo {
    std::string_view name;
    Stage stage;
};

constexpr std::array<MistakeInfo, mistakes> mistake_infos = {{
    {"none", Stage::q},
    {"q_row_zeroed", Stage::q},
    {"stale_k_tile", Stage::k},
    {"swapped_v_tile", Stage::v},
    {"mask_off_by_one", Stage::s},
    {"scaled_twice", Stage::s},
    {"max_of_half_tile", Stage::m},
    {"p_clamped", Stage::p},
    {"l_not_rescaled", Stage::l},
    {"acc_not_rescaled", Stage::acc},
    {"o_not_normalised", Stage::o},
    {"o_normalised_twice", Stage::o},
    {"lse_base_two", Stage::lse},
}};

Accumulation accumulation_of(Sum sum) {
    return is_tensor_core(sum) ? Accumulation::tensor_core_f32 : Accumulation::fma_f32;
}

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
    return fmt::format(
        "{} score_sum {} pv_sum {} lanes {} worst_exp {} separate_pv {} reciprocal {} approximate {} skips "
        "{} "
        "unmasked_s {} p {} dumps_cast_p {} l_sums_cast_p {} lse base {} order {}",
        softmax_units[std::size_t(a.softmax)].name, int(a.score_sum), int(a.pv_sum), a.lanes, a.worst_exp,
        a.separate_pv, a.reciprocal, a.approximate, a.skips_hidden_tiles, a.dumps_unmasked_s,
        dtype_info(a.p_operand).name, a.dumps_cast_p, a.l_sums_cast_p,
        a.lse_log_base == LogBase::two ? "two" : "e", a.kv_order == KvOrder::reverse ? "reverse" : "forward");
}

Units units_of(const Arithmetic& a) {
    const SoftmaxUnits& softmax = softmax_units[std::size_t(a.softmax)];
    Units units;
    units.s_scaled = softmax.s_scaled;
    units.s_masked = !a.dumps_unmasked_s;
    units.s_log_base = softmax.s_log_base;
    units.s_accumulation = accumulation_of(a.score_sum);
    units.m_scaled = softmax.m_scaled;
    units.m_log_base = softmax.m_log_base;
    units.p_exp = softmax.exp;
    units.p_cast = a.dumps_cast_p ? a.p_operand : Dtype::f32;
    units.l_sums_cast_p = a.l_sums_cast_p;
    units.acc_accumulation = accumulation_of(a.pv_sum);
    units.lse_log_base = a.lse_log_base;
    units.kv_order = a.kv_order;
    return units;
}

std::string_view to_string(Mistake mistake) {
    return mistake_infos[std::size_t(mistake)].name;
}

Stage stage_of(Mistake mistake) {
    return mistake_infos[std::size_t(mistake)].stage;
}

}  // namespace tilescope::test
