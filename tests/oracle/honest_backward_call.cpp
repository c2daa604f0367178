#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <utility>

#include "tests/oracle/draws.h"
#include "tests/oracle/honest_backward.h"

namespace tilescope::test {

namespace {

double normal(Random& random) {
    return std::normal_distribution<double>()(random);
}

struct MistakeInfo {
    std::string_view name;
    Stage stage;
};

constexpr std::array<MistakeInfo, gradient_mistakes> mistake_infos = {{
    {"none", Stage::q},
    {"dout_of_next_block", Stage::dout},
    {"delta_of_next_o", Stage::delta},
    {"p_from_max", Stage::p},
    {"lse_base_confused", Stage::p},
    {"p_not_masked", Stage::p},
    {"ds_without_delta", Stage::ds},
    {"ds_delta_of_next_row", Stage::ds},
    {"ds_without_p", Stage::ds},
    {"ds_without_cap", Stage::ds},
    {"dq_not_scaled", Stage::dq},
    {"dq_tile_lost", Stage::dq},
    {"dk_scaled_twice", Stage::dk},
    {"dk_of_wrong_heads", Stage::dk},
    {"dk_without_last_block", Stage::dk},
    {"tail_rows_counted", Stage::dk},
    {"dv_untransposed", Stage::dv},
}};

double dout_value(DoutKind kind, std::int64_t row, std::int64_t huge_row, Random& random) {
    switch (kind) {
        case DoutKind::normal:
            return normal(random);
        case DoutKind::large:
            return 30 * normal(random);
        case DoutKind::small:
            return 1e-3 * normal(random);
        case DoutKind::with_mean:
            return 0.5 + 0.3 * normal(random);
        case DoutKind::huge_row:
            return (row == huge_row ? 300 : 1) * normal(random);
        case DoutKind::constant:
            return 0.75;
        case DoutKind::zero:
            return 0;
        case DoutKind::sparse:
            return one_in(random, 10) ? normal(random) : 0;
    }
    return 0;
}

bool is_16_bits(Dtype dtype) {
    return dtype == Dtype::f16 || dtype == Dtype::bf16;
}

/// A sum that hardware has for operands of these types, with results that fit.
Sum choose_sum(Random& random, const std::string& device, Dtype a, Dtype b, bool fits_half) {
    if (a == Dtype::f32 || b == Dtype::f32)
        return device.empty() ? pick(random, {Sum::tf32_rounded, Sum::tf32_cut, Sum::sequential,
                                              Sum::rounded_products, Sum::pairwise})
                              : pick(random, {Sum::sequential, Sum::reversed});
    const bool bf16 = a == Dtype::bf16 || b == Dtype::bf16;
    if (fits_half && !bf16 && one_in(random, 3)) return pick(random, {Sum::half_fma, Sum::half_tensor_core});
    if (device == "9.0") return pick(random, {Sum::truncating_16_guarded, Sum::sequential});
    if (device == "8.6")
        return pick(random, {Sum::truncating_8_guarded, Sum::truncating_16_guarded, Sum::rounded_products});
    return Sum(random() % sums);
}

/// The type of an operand as the kernel holds it.
Dtype held(Dtype dtype, const Descale& descale, const Loading& loading) {
    return loading.dequantises && !descale.empty() ? loading.cast : dtype;
}

void choose_sums(Random& random, bool small, const Call& forward, GradientArithmetic& a) {
    const Problem& p = forward.problem;
    const SideInputs& side = forward.inputs.side;
    const Dtype q = held(p.dtype_q, side.descale_q, a.forward.q);
    const Dtype k = held(p.dtype_k, side.descale_k, a.forward.k);
    const Dtype v = held(p.dtype_v, side.descale_v, a.forward.v);
    const std::string& device = a.forward.compute_capability;
    const bool fits = small && a.ds_scale <= 1 && a.forward.p_scale == 1;
    a.dp_sum = choose_sum(random, device, p.dtype_dout, v, fits);
    a.dq_sum = choose_sum(random, device, a.ds_operand, k, fits);
    a.dk_sum = choose_sum(random, device, a.ds_operand, q, fits);
    a.dv_sum = choose_sum(random, device, a.forward.p_operand, p.dtype_dout, fits);
}

void choose_gradients(Random& random, const Problem& p, GradientArithmetic& a) {
    a.delta_lanes = std::int64_t(1) << (random() % 6);
    a.ds_operand = pick(random, {Dtype::f32, Dtype::f16, Dtype::bf16});
    a.ds_scale = pick(random, {1.0, p.sm_scale, double(0.37f), 8.0});
    a.ds_order = DsOrder(random() % ds_orders);
    a.ds_from_cast_p = one_in(random, 2);
    a.dumps_cast_ds = one_in(random, 2);
    a.dumps_uncapped_ds = !a.dumps_cast_ds && p.logits_soft_cap != 0 && one_in(random, 2);
    a.fused_cap = one_in(random, 2);
    a.nest = one_in(random, 2) ? LoopNest::keys_outside : LoopNest::two_passes;
    a.dkv_atomic = one_in(random, 3);
    a.group_in_parts = one_in(random, 2);
    a.reversed_blocks = one_in(random, 2);
    a.order_seed = random();
}

/// Where sums are short, their bounds leave no room for a rounding that was forgotten.
void narrow(Random& random, InputKind kind, std::uint64_t seed, Call& call) {
    call.problem.head_dim = pick<std::int64_t>(random, {1, 2, 3, 8});
    call.problem.head_dim_v = pick<std::int64_t>(random, {1, 2, 4});
    Inputs inputs = make_inputs(call.problem, kind, seed);
    call.inputs.q = std::move(inputs.q);
    call.inputs.k = std::move(inputs.k);
    call.inputs.v = std::move(inputs.v);
}

}  // namespace

std::vector<float> make_dout(const Problem& p, DoutKind kind, std::uint64_t seed) {
    Random random(seed * 48271u + 29);
    const std::int64_t huge_row = std::int64_t(random() % std::uint64_t(p.seqlen_q));
    std::vector<float> dout;
    for (std::int64_t row = 0; row < p.batch * p.heads * p.seqlen_q; ++row) {
        for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
            const double value = dout_value(kind, row % p.seqlen_q, huge_row, random);
            dout.push_back(decode(p.dtype_dout, encode(p.dtype_dout, value)));
        }
    }
    return dout;
}

GradientCall gradient_call(const Problem& problem, const GradientArithmetic& arithmetic, Inputs inputs,
                           std::vector<float> dout) {
    GradientCall call{problem, arithmetic, std::move(inputs), std::move(dout), {}, {}};
    call.problem.direction = Direction::backward;
    call.problem.dtype_p = arithmetic.forward.p_operand;
    call.problem.dtype_ds = arithmetic.ds_operand;
    call.arithmetic.forward.lse_includes_sink = true;
    Problem forward = call.problem;
    forward.direction = Direction::forward;
    const KernelRun run = run_kernel(forward, call.arithmetic.forward, call.inputs);
    const Problem& p = problem;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    call.o.assign(std::size_t(p.batch * p.heads * p.seqlen_q * p.head_dim_v), nan);
    call.lse.assign(std::size_t(p.batch * p.heads * p.seqlen_q), nan);
    for (std::int64_t i = 0; i < tile_count(forward, Stage::o); ++i) {
        const TileId id = tile_at(forward, Stage::o, i);
        const std::int64_t rows = tile_extent(forward, Stage::o, id).rows;
        const std::int64_t first = (id.batch * p.heads + id.head) * p.seqlen_q + id.q_block * p.block_m;
        for (const auto& [stage, to, cols] : {std::tuple{Stage::o, &call.o, p.head_dim_v},
                                              std::tuple{Stage::lse, &call.lse, std::int64_t(1)}}) {
            std::vector<float> values(std::size_t(tile_shape(forward, stage).elements()));
            if (!run.recording.read_tile(stage, id, values)) continue;
            std::copy_n(values.begin(), rows * cols, to->begin() + first * cols);
        }
    }
    return call;
}

GradientArithmetic random_gradient_arithmetic(const Problem& problem, std::uint64_t seed) {
    Random random(seed * 69621u + 7);
    GradientArithmetic a;
    a.forward = random_arithmetic(seed);
    choose_gradients(random, problem, a);
    // Operands of 16 bits, as dout, q, k and v are by default.
    const auto sum = [&](Dtype operand) {
        return is_16_bits(operand) ? Sum(random() % sums) : Sum(random() % 4);
    };
    a.dp_sum = Sum(random() % sums);
    a.dq_sum = sum(a.ds_operand);
    a.dk_sum = sum(a.ds_operand);
    a.dv_sum = sum(a.forward.p_operand);
    return a;
}

GradientCall random_gradient_call(std::uint64_t seed) {
    Random random(seed * 1566083941u + 11);
    const auto input_kind = InputKind(random() % input_kinds);
    const auto dout_kind = DoutKind(random() % dout_kinds);
    Call forward = random_call(input_kind, seed);
    Problem& p = forward.problem;
    if (one_in(random, 3)) narrow(random, input_kind, seed, forward);
    for (Dtype* dtype : {&p.dtype_dout, &p.dtype_dq, &p.dtype_dk, &p.dtype_dv})
        *dtype = pick(random, {Dtype::f16, Dtype::bf16, Dtype::f32});
    p.dkv_per_head = one_in(random, 3);
    GradientArithmetic a;
    a.forward = forward.arithmetic;
    choose_gradients(random, p, a);
    const bool small =
        (input_kind == InputKind::normal || input_kind == InputKind::tiny || input_kind == InputKind::ties) &&
        dout_kind != DoutKind::large && dout_kind != DoutKind::huge_row;
    choose_sums(random, small, forward, a);
    return gradient_call(p, a, std::move(forward.inputs), make_dout(p, dout_kind, seed));
}

Units units_of(const GradientArithmetic& a, const SideInputs& side) {
    Units units = units_of(a.forward, side);
    units.lse_includes_sink = true;
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

std::string describe(const GradientArithmetic& a) {
    return fmt::format(
        "{}; delta_lanes {} dp_sum {} dq_sum {} dk_sum {} dv_sum {} ds {} ds_scale {} ds_order {} "
        "ds_from_cast_p {} dumps_cast_ds {} dumps_uncapped_ds {} fused_cap {} nest {} dkv_atomic {} "
        "group_in_parts {} reversed_blocks {}",
        describe(a.forward), a.delta_lanes, int(a.dp_sum), int(a.dq_sum), int(a.dk_sum), int(a.dv_sum),
        dtype_info(a.ds_operand).name, a.ds_scale, int(a.ds_order), a.ds_from_cast_p, a.dumps_cast_ds,
        a.dumps_uncapped_ds, a.fused_cap, int(a.nest), a.dkv_atomic, a.group_in_parts, a.reversed_blocks);
}

std::string describe(const GradientCall& call) {
    const Problem& p = call.problem;
    return describe(Call{p, call.arithmetic.forward, call.inputs}) +
           fmt::format("; dout {} dq {} dk {} dv {} dkv_per_head {}; ", dtype_info(p.dtype_dout).name,
                       dtype_info(p.dtype_dq).name, dtype_info(p.dtype_dk).name, dtype_info(p.dtype_dv).name,
                       p.dkv_per_head) +
           describe(call.arithmetic);
}

std::string_view to_string(GradientMistake mistake) {
    return mistake_infos[std::size_t(mistake)].name;
}

Stage stage_of(GradientMistake mistake) {
    return mistake_infos[std::size_t(mistake)].stage;
}

}  // namespace tilescope::test
