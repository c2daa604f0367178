// Calls of either pass, and those of all that there is: every option of the problem, of its inputs and of the
// kernel's arithmetic.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>

#include "tests/oracle/draws.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

bool is_fp8(Dtype dtype) {
    return dtype == Dtype::e4m3 || dtype == Dtype::e5m2;
}

namespace {

void choose_problem(Random& random, Problem& p) {
    if (one_in(random, 3)) p.logits_soft_cap = pick(random, {1.0, 5.0, 30.0, 50.0});
    if (one_in(random, 3)) p.alibi = pick(random, {Alibi::linear, Alibi::distance});
    if (one_in(random, 3)) p.sink = pick(random, {AttentionSink::first, AttentionSink::last});
    if (one_in(random, 2)) p.window_bounds = WindowBounds::exclusive;
    if (one_in(random, 3)) p.kv_tiles_per_split = between(random, 1, 3);
    if (p.sink != AttentionSink::first && one_in(random, 3)) {
        p.l_lanes = pick<std::int64_t>(random, {2, 4, 8});
        p.l_lane_columns = pick<std::int64_t>(random, {1, 2, 3});
    }
    if (one_in(random, 2)) {
        for (Dtype* dtype : {&p.dtype_q, &p.dtype_k, &p.dtype_v})
            *dtype = pick(random, {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2});
        if (one_in(random, 2)) p.dtype_k = p.dtype_v = p.dtype_q;
    }
    if (one_in(random, 4)) p.dtype_o = Dtype::bf16;
}

/// A descale per tensor, head or block, for an operand of fp8.
Descale choose_descale(Random& random, const Problem& p, Dtype dtype, std::int64_t heads, std::int64_t seqlen,
                       std::int64_t tile) {
    if (!is_fp8(dtype) || one_in(random, 5)) return {};
    const std::uint64_t seed = random();
    // Blocks that end where tiles end: a kernel multiplies the products of a tile with one number.
    const std::int64_t rows = tile * between(random, 1, 2);
    switch (random() % 3) {
        case 0:
            return make_descale(p, 0, 1, seqlen, seed);
        case 1:
            return make_descale(p, heads, 1, seqlen, seed);
        default:
            return make_descale(p, heads, (seqlen + rows - 1) / rows, rows, seed);
    }
}

/// Lengths, bias, slopes, sinks and descales.
void choose_inputs(Random& random, std::uint64_t seed, const Problem& p, Inputs& inputs) {
    if (one_in(random, 3)) {
        for (std::int64_t i = 0; i < p.batch; ++i) {
            inputs.side.seqlens_q.push_back(one_in(random, 5) ? 0 : between(random, 0, p.seqlen_q));
            inputs.side.seqlens_kv.push_back(one_in(random, 5) ? 0 : between(random, 0, p.seqlen_kv));
        }
        // Something has to be left to judge.
        inputs.side.seqlens_q[0] = p.seqlen_q;
    }
    if (one_in(random, 4)) {
        inputs.bias = {pick(random, {std::int64_t(1), p.batch}),
                       pick(random, {std::int64_t(1), p.heads}),
                       pick(random, {std::int64_t(1), p.seqlen_q}),
                       p.seqlen_kv,
                       {}};
        fill_bias(pick(random, {0.0, 0.1, 0.9}), seed, inputs.bias);
    }
    add_slopes_and_sinks(p, seed, inputs);
    SideInputs& side = inputs.side;
    side.descale_q = choose_descale(random, p, p.dtype_q, p.heads, p.seqlen_q, p.block_m);
    side.descale_k = choose_descale(random, p, p.dtype_k, p.heads_kv, p.seqlen_kv, p.block_n);
    side.descale_v = choose_descale(random, p, p.dtype_v, p.heads_kv, p.seqlen_kv, p.block_n);
}

void choose_loading(Random& random, const Descale& descale, Loading& loading) {
    if (descale.empty()) return;
    loading.dequantises = one_in(random, 2);
    if (loading.dequantises) loading.cast = pick(random, {Dtype::f16, Dtype::bf16, Dtype::f32});
}

/// A scale that q or k is staged with, in its own type where that has 16 bits.
void choose_scale(Random& random, const Problem& p, Dtype dtype, Loading& loading) {
    if (!one_in(random, 4)) return;
    const double scale = pick(random, {p.sm_scale, p.sm_scale * std::numbers::log2e, std::sqrt(p.sm_scale)});
    loading.scale = float(std::min(scale, 1.0));
    const bool is_16_bits = dtype_info(dtype).bytes == 2;
    loading.cast = is_16_bits ? dtype : pick(random, {Dtype::bf16, Dtype::f32});
}

/// P that takes the descale of V where nothing else does, and has room for it in its type.
void choose_descale_in_p(Random& random, const SideInputs& side, Arithmetic& a) {
    const bool may = !side.descale_v.empty() && !a.v.dequantises && a.acc_dequantised && !a.l_sums_cast_p &&
                     a.p_operand != Dtype::e4m3;
    if (!may || one_in(random, 2)) return;
    a.p_descale = a.dumps_cast_p || one_in(random, 2) ? DescaleInP::recorded : DescaleInP::operand;
}

/// The type of an operand as the kernel holds it.
Dtype held(Dtype dtype, const Descale& descale, const Loading& loading) {
    return loading.multiplies(descale) ? loading.cast : dtype;
}

/// A sum that hardware has for operands of these types, with results that fit.
Sum choose_sum(Random& random, Direction pass, const std::string& device, Dtype a, Dtype b, bool fits_half) {
    if (a == Dtype::f32 || b == Dtype::f32) {
        if (!device.empty()) return pick(random, {Sum::sequential, Sum::reversed});
        return pass == Direction::forward
                   ? pick(random, {Sum::tf32_rounded, Sum::tf32_cut, Sum::sequential, Sum::pairwise})
                   : pick(random, {Sum::tf32_rounded, Sum::tf32_cut, Sum::sequential, Sum::rounded_products,
                                   Sum::pairwise});
    }
    if (is_fp8(a) && is_fp8(b) && one_in(random, 2)) return Sum::fp8;
    const bool bf16 = a == Dtype::bf16 || b == Dtype::bf16;
    if (fits_half && !bf16 && one_in(random, 3)) return pick(random, {Sum::half_fma, Sum::half_tensor_core});
    if (device == "9.0") return pick(random, {Sum::truncating_16_guarded, Sum::sequential});
    if (device == "8.6")
        return pick(random, {Sum::truncating_8_guarded, Sum::truncating_16_guarded, Sum::rounded_products});
    return Sum(random() % sums);
}

void choose_p(Random& random, bool stale, Arithmetic& a) {
    a.p_operand = pick(random, {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2});
    if (one_in(random, 2)) return;
    // P is at most 1 unless the maximum lags, and has to fit e4m3.
    a.p_scale = stale ? 1.5 : pick(random, {256.0, 448.0, 100.0});
    a.p_scale_in_exponent = one_in(random, 2);
    a.l_scaled = a.p_scale_in_exponent || a.l_sums_cast_p || one_in(random, 2);
    a.acc_scaled = one_in(random, 2);
    // exp(ln(448)) is not exactly 448.
    if (a.p_scale_in_exponent && a.p_operand == Dtype::e4m3 && !stale) a.p_scale = 256;
}

/// Sums, casts and scales, of operands that the descales of the inputs allow for. What was added since is drawn from
/// `later`, which leaves the rest as it was.
void choose_arithmetic(Random& random, Random& later, bool small, Call& call) {
    Problem& p = call.problem;
    Arithmetic& a = call.arithmetic;
    const SideInputs& side = call.inputs.side;
    a.compute_capability = pick<const char*>(random, {"", "8.6", "9.0"});
    a.tanh = pick(random, {TanhFunction::tanhf, TanhFunction::tanh_approx});
    a.separate_alibi = one_in(random, 2);
    if (one_in(random, 3)) a.stale_threshold = pick(random, {1.0, 4.0, 8 * std::numbers::ln2});
    if (one_in(random, 5)) a.exp_error = 1e-4;
    a.sink_rescales = one_in(random, 2);
    choose_p(random, a.stale_threshold > 0, a);
    choose_loading(random, side.descale_q, a.q);
    choose_loading(random, side.descale_k, a.k);
    choose_loading(random, side.descale_v, a.v);
    choose_scale(later, p, p.dtype_q, a.q);
    choose_scale(later, p, p.dtype_k, a.k);
    a.unscaled_in_gradients = one_in(later, 2);
    const Dtype q = held(p.dtype_q, side.descale_q, a.q);
    const Dtype k = held(p.dtype_k, side.descale_k, a.k);
    const Dtype v = held(p.dtype_v, side.descale_v, a.v);
    if (!a.v.dequantises && !side.descale_v.per_block()) a.acc_dequantised = one_in(random, 2);
    a.score_sum = choose_sum(random, Direction::forward, a.compute_capability, q, k, small);
    const bool fits_half = small && a.p_scale == 1 && a.stale_threshold == 0;
    a.pv_sum = choose_sum(random, Direction::forward, a.compute_capability, a.p_operand, v, fits_half);
    if (fits_half && one_in(random, 4)) p.dtype_acc = Dtype::f16;
    choose_descale_in_p(later, side, a);
}

/// What is dumped, in units that exist.
void choose_units(Random& random, Call& call) {
    const Problem& p = call.problem;
    Arithmetic& a = call.arithmetic;
    const SideInputs& side = call.inputs.side;
    const bool biased = p.alibi != Alibi::none || !call.inputs.bias.empty();
    a.dumps_uncapped_s = one_in(random, 4);
    a.dumps_unbiased_s = a.dumps_uncapped_s || one_in(random, 4);
    const bool blocks =
        (!a.q.dequantises && side.descale_q.per_block()) || (!a.k.dequantises && side.descale_k.per_block());
    // A maximum of scores that lack different factors has no unit.
    if (blocks && (p.logits_soft_cap == 0 || biased))
        a.softmax = pick(random, {Softmax::natural, Softmax::natural_contracted, Softmax::base_two});
    if (blocks && !biased && p.logits_soft_cap == 0 && one_in(random, 3))
        a.softmax = Softmax::raw_with_base_two_max;
    // Scores before their cap are dumped in natural units.
    if (a.dumps_uncapped_s && a.softmax == Softmax::base_two) a.softmax = Softmax::natural;
    a.o_empty_row = pick(random, {EmptyRow::zero, EmptyRow::nan});
    a.lse_empty_row = pick(random, {EmptyRow::minus_infinity, EmptyRow::plus_infinity, EmptyRow::nan});
    a.lse_includes_sink = one_in(random, 2) || p.sink != AttentionSink::last;
}

bool has_small_products(InputKind kind) {
    return kind == InputKind::normal || kind == InputKind::tiny || kind == InputKind::ties;
}

void choose_gradients(Random& random, const Problem& p, Arithmetic& a) {
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

void choose_gradient_sums(Random& random, bool small, const Call& forward, Arithmetic& a) {
    const Problem& p = forward.problem;
    const SideInputs& side = forward.inputs.side;
    const bool fits = small && a.ds_scale <= 1 && a.p_scale == 1;
    const auto sum = [&](Dtype left, Dtype right) {
        return choose_sum(random, Direction::backward, a.compute_capability, left, right, fits);
    };
    a.dp_sum = sum(p.dtype_dout, held(p.dtype_v, side.descale_v, a.v));
    a.dq_sum = sum(a.ds_operand, held(p.dtype_k, side.descale_k, a.k));
    a.dk_sum = sum(a.ds_operand, held(p.dtype_q, side.descale_q, a.q));
    a.dv_sum = sum(a.p_operand, p.dtype_dout);
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

Call random_gradient_call(std::uint64_t seed) {
    Random random(seed * 1566083941u + 11);
    const auto input_kind = InputKind(random() % input_kinds);
    const auto dout_kind = DoutKind(random() % dout_kinds);
    Call call = random_call(input_kind, seed);
    Problem& p = call.problem;
    if (one_in(random, 3)) narrow(random, input_kind, seed, call);
    for (Dtype* dtype : {&p.dtype_dout, &p.dtype_dq, &p.dtype_dk, &p.dtype_dv})
        *dtype = pick(random, {Dtype::f16, Dtype::bf16, Dtype::f32});
    p.dkv_per_head = one_in(random, 3);
    choose_gradients(random, p, call.arithmetic);
    const bool small =
        has_small_products(input_kind) && dout_kind != DoutKind::large && dout_kind != DoutKind::huge_row;
    choose_gradient_sums(random, small, call, call.arithmetic);
    return gradient_call(p, call.arithmetic, std::move(call.inputs), make_dout(p, dout_kind, seed));
}

}  // namespace

Arithmetic random_arithmetic(const Problem& problem, std::uint64_t seed) {
    Arithmetic a = random_arithmetic(seed);
    if (problem.direction == Direction::forward) return a;
    Random random(seed * 69621u + 7);
    choose_gradients(random, problem, a);
    // Operands of 16 bits, as dout, q, k and v are by default.
    const auto sum = [&](Dtype operand) {
        const bool is_16_bits = dtype_info(operand).bytes == 2;
        return Sum(random() % (is_16_bits ? sums : 4));
    };
    a.dp_sum = Sum(random() % sums);
    a.dq_sum = sum(a.ds_operand);
    a.dk_sum = sum(a.ds_operand);
    a.dv_sum = sum(a.p_operand);
    return a;
}

Call make_call(const Problem& problem, std::uint64_t seed, const Arithmetic& arithmetic, InputKind kind) {
    Inputs inputs = make_inputs(problem, kind, seed);
    if (problem.direction == Direction::forward) return {problem, arithmetic, std::move(inputs)};
    return gradient_call(problem, arithmetic, std::move(inputs), make_dout(problem, DoutKind::normal, seed));
}

Call gradient_call(const Problem& problem, const Arithmetic& arithmetic, Inputs inputs,
                   std::vector<float> dout) {
    Call call{problem, arithmetic, std::move(inputs)};
    call.arithmetic.lse_includes_sink = true;
    call.problem.direction = Direction::forward;
    const KernelRun run = run_kernel(call);
    const Problem& p = run.recording.problem();
    call.inputs.o.assign(std::size_t(p.batch * p.heads * p.seqlen_q * p.head_dim_v), nan);
    call.inputs.lse.assign(std::size_t(p.batch * p.heads * p.seqlen_q), nan);
    for (std::int64_t i = 0; i < tile_count(p, Stage::o); ++i) {
        const TileId id = tile_at(p, Stage::o, i);
        const std::int64_t rows = tile_extent(p, Stage::o, id).rows;
        const std::int64_t first = (id.batch * p.heads + id.head) * p.seqlen_q + id.q_block * p.block_m;
        for (const auto& [stage, to, cols] : {std::tuple{Stage::o, &call.inputs.o, p.head_dim_v},
                                              std::tuple{Stage::lse, &call.inputs.lse, std::int64_t(1)}}) {
            std::vector<float> values(std::size_t(tile_shape(p, stage).elements()));
            if (!run.recording.read_tile(stage, id, values)) continue;
            std::copy_n(values.begin(), rows * cols, to->begin() + first * cols);
        }
    }
    call.problem = p;
    call.problem.direction = Direction::backward;
    call.inputs.dout = std::move(dout);
    return call;
}

Call random_call(InputKind kind, std::uint64_t seed) {
    Random random(seed * 2246822519u + 3266489917u);
    Call call{random_problem(seed), random_arithmetic(seed), {}};
    Problem& p = call.problem;
    choose_problem(random, p);
    call.inputs = make_inputs(p, kind, seed);
    choose_inputs(random, seed, p, call.inputs);
    Random later(seed * 2654435761u + 40503);
    if (one_in(later, 3)) p.head_grouping = HeadGrouping::interleaved;
    choose_arithmetic(random, later, has_small_products(kind), call);
    choose_units(random, call);
    return call;
}

Call random_call(Direction direction, std::uint64_t seed) {
    return direction == Direction::forward ? random_call(InputKind(seed % input_kinds), seed)
                                           : random_gradient_call(seed);
}

std::string describe(const Call& call) {
    const SideInputs& side = call.inputs.side;
    std::string text = describe(call.problem) + "; " + describe(call.arithmetic) + "; lengths";
    for (const auto* lengths : {&side.seqlens_q, &side.seqlens_kv}) {
        text += " [";
        for (const std::int64_t length : *lengths) text += std::to_string(length) + " ";
        text += "]";
    }
    for (const Descale* descale : {&side.descale_q, &side.descale_k, &side.descale_v})
        text += fmt::format(" descale {}x{} of {}", descale->heads, descale->blocks, descale->rows);
    text +=
        fmt::format(" scales of q {} and k {}, unscaled in gradients {}, descale in p {}, heads {}",
                    call.arithmetic.q.scale, call.arithmetic.k.scale, call.arithmetic.unscaled_in_gradients,
                    int(call.arithmetic.p_descale), int(call.problem.head_grouping));
    const Bias& bias = call.inputs.bias;
    text += fmt::format(" bias {} of {}x{}", bias.values.size(), bias.seqlen_q, bias.seqlen_kv);
    const Problem& p = call.problem;
    if (p.direction == Direction::forward) return text;
    const Arithmetic& a = call.arithmetic;
    return text +
           fmt::format(
               "; dout {} dq {} dk {} dv {} dkv_per_head {}; delta_lanes {} dp_sum {} dq_sum {} dk_sum {} "
               "dv_sum {} ds {} ds_scale {} ds_order {} ds_from_cast_p {} dumps_cast_ds {} "
               "dumps_uncapped_ds {} fused_cap {} nest {} dkv_atomic {} group_in_parts {} reversed_blocks {}",
               dtype_info(p.dtype_dout).name, dtype_info(p.dtype_dq).name, dtype_info(p.dtype_dk).name,
               dtype_info(p.dtype_dv).name, p.dkv_per_head, a.delta_lanes, int(a.dp_sum), int(a.dq_sum),
               int(a.dk_sum), int(a.dv_sum), dtype_info(a.ds_operand).name, a.ds_scale, int(a.ds_order),
               a.ds_from_cast_p, a.dumps_cast_ds, a.dumps_uncapped_ds, a.fused_cap, int(a.nest), a.dkv_atomic,
               a.group_in_parts, a.reversed_blocks);
}

}  // namespace tilescope::test
