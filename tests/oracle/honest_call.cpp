// Calls of all that there is: every option of the problem, of its inputs and of the kernel's arithmetic.

#include <array>
#include <cmath>
#include <numbers>
#include <random>

#include "tests/oracle/draws.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

namespace {

std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
    return least + std::int64_t(random() % std::uint64_t(most - least + 1));
}

bool is_fp8(Dtype dtype) {
    return dtype == Dtype::e4m3 || dtype == Dtype::e5m2;
}

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

/// The type of a staged operand.
Dtype staged(Random& random, Dtype dtype, const Descale& descale, Loading& loading) {
    if (descale.empty()) return dtype;
    loading.dequantises = one_in(random, 2);
    if (!loading.dequantises) return dtype;
    loading.cast = pick(random, {Dtype::f16, Dtype::bf16, Dtype::f32});
    return loading.cast;
}

/// A sum that hardware has for operands of these types, with results that fit.
Sum choose_sum(Random& random, const std::string& device, Dtype a, Dtype b, bool fits_half) {
    if (a == Dtype::f32 || b == Dtype::f32)
        return device.empty()
                   ? pick(random, {Sum::tf32_rounded, Sum::tf32_cut, Sum::sequential, Sum::pairwise})
                   : pick(random, {Sum::sequential, Sum::reversed});
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

/// Sums, casts and scales, of operands that the descales of the inputs allow for.
void choose_arithmetic(Random& random, bool small, Call& call) {
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
    const Dtype q = staged(random, p.dtype_q, side.descale_q, a.q);
    const Dtype k = staged(random, p.dtype_k, side.descale_k, a.k);
    const Dtype v = staged(random, p.dtype_v, side.descale_v, a.v);
    if (!a.v.dequantises && !side.descale_v.per_block()) a.acc_dequantised = one_in(random, 2);
    a.score_sum = choose_sum(random, a.compute_capability, q, k, small);
    const bool fits_half = small && a.p_scale == 1 && a.stale_threshold == 0;
    a.pv_sum = choose_sum(random, a.compute_capability, a.p_operand, v, fits_half);
    if (fits_half && one_in(random, 4)) p.dtype_acc = Dtype::f16;
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

}  // namespace

Call random_call(InputKind kind, std::uint64_t seed) {
    Random random(seed * 2246822519u + 3266489917u);
    Call call{random_problem(seed), random_arithmetic(seed), {}};
    Problem& p = call.problem;
    choose_problem(random, p);
    call.inputs = make_inputs(p, kind, seed);
    choose_inputs(random, seed, p, call.inputs);
    const bool small = kind == InputKind::normal || kind == InputKind::tiny || kind == InputKind::ties;
    choose_arithmetic(random, small, call);
    choose_units(random, call);
    return call;
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
        text += " descale " + std::to_string(descale->heads) + "x" + std::to_string(descale->blocks) +
                " of " + std::to_string(descale->rows);
    const Bias& bias = call.inputs.bias;
    return text + " bias " + std::to_string(bias.values.size()) + " of " + std::to_string(bias.seqlen_q) +
           "x" + std::to_string(bias.seqlen_kv);
}

}  // namespace tilescope::test
