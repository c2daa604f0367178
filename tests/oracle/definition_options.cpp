#include "tests/oracle/definition_options.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace tilescope::test {

namespace {

/// Not from a standard distribution, whose numbers differ from library to library.
float uniform(Random& random, double least, double most) {
    return float(least + (most - least) * (double(random() % 1'000'000) / 1e6));
}

std::vector<float> uniforms(Random& random, std::int64_t count, double least, double most) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(uniform(random, least, most));
    return values;
}

/// Lengths of which some are 0, but not all.
std::vector<std::int64_t> draw_lengths(Random& random, std::int64_t batch, std::int64_t most) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < batch; ++i)
        lengths.push_back(between(random, 0, 2) == 0 ? 0 : between(random, 1, most));
    lengths[std::size_t(between(random, 0, batch - 1))] = between(random, 1, most);
    return lengths;
}

enum class Share : std::uint8_t { tensor, head, block, channel };

template <Stage stage, Share share, bool dequantised>
void set_descale(AttentionCall& call, Random& random) {
    const Problem& p = call.problem;
    const std::int64_t rows = stage == Stage::q ? p.seqlen_q : p.seqlen_kv;
    Descale descale;
    if (share != Share::tensor) {
        descale.heads = stage == Stage::q ? p.heads : p.heads_kv;
        descale.rows = share == Share::block ? between(random, 1, (rows + 1) / 2) : rows;
        descale.blocks = (rows + descale.rows - 1) / descale.rows;
    }
    if (share == Share::channel) descale.channels = stage == Stage::v ? p.head_dim_v : p.head_dim;
    const std::int64_t count =
        share == Share::tensor
            ? 1
            : p.batch * descale.heads * std::max<std::int64_t>(descale.blocks, descale.channels);
    descale.values = uniforms(random, count, 0.5, 2);
    if (stage == Stage::q) {
        call.inputs.side.descale_q = descale;
        call.units.q_dequantised = dequantised;
    } else if (stage == Stage::k) {
        call.inputs.side.descale_k = descale;
        call.units.k_dequantised = dequantised;
    } else {
        call.inputs.side.descale_v = descale;
        call.units.v_dequantised = dequantised;
    }
}

template <Share share>
void set_raw_acc(AttentionCall& call, Random& random) {
    set_descale<Stage::v, share, false>(call, random);
    call.units.acc_dequantised = false;
}

template <Share share, DescaleInP in_p>
void set_descale_in_p(AttentionCall& call, Random& random) {
    set_descale<Stage::v, share, false>(call, random);
    call.units.p_descale_v = in_p;
}

template <Alibi alibi, bool per_batch>
void set_alibi(AttentionCall& call, Random& random) {
    call.problem.alibi = alibi;
    call.inputs.side.alibi_slopes =
        uniforms(random, call.problem.heads * (per_batch ? call.problem.batch : 1), 0.05, 0.5);
}

template <AttentionSink sink>
void set_sink(AttentionCall& call, Random& random) {
    call.problem.sink = sink;
    call.inputs.side.sink = uniforms(random, call.problem.heads, -2, 3);
}

void set_bias(AttentionCall& call, Random& random) {
    const auto coin = [&] { return between(random, 0, 1) == 1; };
    const bool batch = coin();
    const bool heads = coin();
    const bool rows = coin();
    call.inputs.bias = draw_bias(call.problem, batch, heads, rows, coin(), random);
}

void set_hiding_bias(AttentionCall& call, Random& random) {
    call.inputs.bias = draw_bias(call.problem, true, true, true, true, random);
    constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
    for (float& value : call.inputs.bias.values) {
        if (between(random, 0, 3) == 0) value = minus_infinity;
    }
    const std::int64_t row = between(random, 0, call.problem.seqlen_q - 1);
    std::fill_n(call.inputs.bias.values.begin() + row * call.problem.seqlen_kv, call.problem.seqlen_kv,
                minus_infinity);
}

void set_soft_cap(AttentionCall& call, Random& random) {
    call.problem.logits_soft_cap = double(uniform(random, 1, 4));
}

void set_dtypes(AttentionCall& call, Dtype dtype) {
    call.problem.dtype_q = call.problem.dtype_k = call.problem.dtype_v = dtype;
}

using Call = AttentionCall;

// What decides the values.
constexpr Option value_option_table[] = {
    {"gqa", "heads", [](Call& c, Random&) { c.problem.heads = 4; }},
    {"gqa_groups_of_3", "heads", [](Call& c, Random&) { c.problem.heads = 6; }},
    {"mqa", "heads", [](Call& c, Random&) { c.problem.heads = 3, c.problem.heads_kv = 1; }},
    {"interleaved", "heads",
     [](Call& c, Random&) {
         c.problem.heads = 6;
         c.problem.head_grouping = HeadGrouping::interleaved;
     }},
    {"one_q_row", "seqlens", [](Call& c, Random&) { c.problem.seqlen_q = 1; }},
    {"more_keys", "seqlens", [](Call& c, Random&) { c.problem.seqlen_kv = c.problem.seqlen_q + 6; }},
    {"more_q_rows", "seqlens", [](Call& c, Random&) { c.problem.seqlen_q = c.problem.seqlen_kv + 4; }},
    {"head_dim_v", "head_dim_v",
     [](Call& c, Random& random) { c.problem.head_dim_v = c.problem.head_dim + between(random, 1, 4); }},
    {"bf16_inputs", "dtypes", [](Call& c, Random&) { set_dtypes(c, Dtype::bf16); }},
    {"f32_inputs", "dtypes", [](Call& c, Random&) { set_dtypes(c, Dtype::f32); }},
    {"e4m3_inputs", "dtypes", [](Call& c, Random&) { set_dtypes(c, Dtype::e4m3); }},
    {"e5m2_inputs", "dtypes", [](Call& c, Random&) { set_dtypes(c, Dtype::e5m2); }},
    {"seqlens_q", "seqlens_q",
     [](Call& c, Random& random) {
         c.inputs.side.seqlens_q = draw_lengths(random, c.problem.batch, c.problem.seqlen_q);
     }},
    {"seqlens_kv", "seqlens_kv",
     [](Call& c, Random& random) {
         c.inputs.side.seqlens_kv = draw_lengths(random, c.problem.batch, c.problem.seqlen_kv);
     }},
    {"causal", "mask", [](Call& c, Random&) { c.problem.mask = Mask::causal; }},
    {"top_left", "alignment",
     [](Call& c, Random&) { c.problem.causal_alignment = CausalAlignment::top_left; }},
    {"window_left", "window_left",
     [](Call& c, Random& random) { c.problem.window_left = between(random, 0, 4); }},
    {"window_right", "window_right",
     [](Call& c, Random& random) { c.problem.window_right = between(random, 0, 4); }},
    {"window_exclusive", "window_bounds",
     [](Call& c, Random& random) {
         c.problem.window_bounds = WindowBounds::exclusive;
         if (c.problem.window_left < 0) c.problem.window_left = between(random, 1, 4);
     }},
    {"soft_cap", "soft_cap", set_soft_cap},
    {"alibi_linear", "alibi", set_alibi<Alibi::linear, false>},
    {"alibi_linear_per_batch", "alibi", set_alibi<Alibi::linear, true>},
    {"alibi_distance", "alibi", set_alibi<Alibi::distance, false>},
    {"alibi_distance_per_batch", "alibi", set_alibi<Alibi::distance, true>},
    {"bias", "bias", set_bias},
    {"bias_that_hides", "bias", set_hiding_bias},
    {"sink_first", "sink", set_sink<AttentionSink::first>},
    {"sink_last", "sink", set_sink<AttentionSink::last>},
    {"lse_without_sink", "sink",
     [](Call& c, Random& random) {
         set_sink<AttentionSink::last>(c, random);
         c.units.lse_includes_sink = false;
     }},
    {"descale_q_tensor", "descale_q", set_descale<Stage::q, Share::tensor, true>},
    {"descale_q_head", "descale_q", set_descale<Stage::q, Share::head, true>},
    {"descale_q_block", "descale_q", set_descale<Stage::q, Share::block, true>},
    {"raw_q_tensor", "descale_q", set_descale<Stage::q, Share::tensor, false>},
    {"raw_q_head", "descale_q", set_descale<Stage::q, Share::head, false>},
    {"raw_q_block", "descale_q", set_descale<Stage::q, Share::block, false>},
    {"descale_k_tensor", "descale_k", set_descale<Stage::k, Share::tensor, true>},
    {"descale_k_head", "descale_k", set_descale<Stage::k, Share::head, true>},
    {"descale_k_block", "descale_k", set_descale<Stage::k, Share::block, true>},
    {"raw_k_tensor", "descale_k", set_descale<Stage::k, Share::tensor, false>},
    {"raw_k_head", "descale_k", set_descale<Stage::k, Share::head, false>},
    {"raw_k_block", "descale_k", set_descale<Stage::k, Share::block, false>},
    {"descale_v_tensor", "descale_v", set_descale<Stage::v, Share::tensor, true>},
    {"descale_v_head", "descale_v", set_descale<Stage::v, Share::head, true>},
    {"descale_v_block", "descale_v", set_descale<Stage::v, Share::block, true>},
    {"raw_v_tensor", "descale_v", set_descale<Stage::v, Share::tensor, false>},
    {"raw_v_head", "descale_v", set_descale<Stage::v, Share::head, false>},
    {"raw_v_block", "descale_v", set_descale<Stage::v, Share::block, false>},
    {"raw_acc_tensor", "descale_v", set_raw_acc<Share::tensor>},
    {"raw_acc_head", "descale_v", set_raw_acc<Share::head>},
    {"s_unscaled", "s_scaled", [](Call& c, Random&) { c.units.s_scaled = false; }},
    {"s_not_capped", "s_capped",
     [](Call& c, Random& random) {
         set_soft_cap(c, random);
         c.units.s_capped = c.units.s_biased = false;
     }},
    {"s_not_biased", "s_biased", [](Call& c, Random&) { c.units.s_biased = false; }},
    {"s_not_masked", "s_masked", [](Call& c, Random&) { c.units.s_masked = false; }},
    // Near enough for float64 to tell a difference to it; undeclared_test has -FLT_MAX.
    {"s_masked_number", "s_masked_value",
     [](Call& c, Random& random) { c.units.s_masked_value = between(random, 0, 1) == 0 ? -3e4 : -65504; }},
    {"q_scaled", "s_scaled",
     [](Call& c, Random&) {
         c.units.q_scale = 0.3;
         c.units.s_scaled = false;
     }},
    {"s_base_two", "s_log_base", [](Call& c, Random&) { c.units.s_log_base = LogBase::two; }},
    {"m_unscaled", "m_scaled", [](Call& c, Random&) { c.units.m_scaled = false; }},
    {"m_base_two", "m_log_base", [](Call& c, Random&) { c.units.m_log_base = LogBase::two; }},
    {"m_stale", "m_stale",
     [](Call& c, Random& random) { c.units.m_stale_threshold = double(uniform(random, 0.5, 3)); }},
    {"lse_base_two", "lse_log_base", [](Call& c, Random&) { c.units.lse_log_base = LogBase::two; }},
    {"p_scale", "p_scale",
     [](Call& c, Random& random) { c.units.p_scale = between(random, 0, 1) == 0 ? 448 : 256; }},
    {"l_scale", "l_scale",
     [](Call& c, Random& random) { c.units.l_scale = double(uniform(random, 2, 500)); }},
    {"acc_scale", "acc_scale",
     [](Call& c, Random& random) { c.units.acc_scale = double(uniform(random, 2, 500)); }},
    {"l_lanes", "l_lanes",
     [](Call& c, Random& random) {
         c.problem.l_lanes = between(random, 2, c.problem.block_n);
         c.problem.l_lane_columns = between(random, 1, 2);
     }},
    {"splits", "splits",
     [](Call& c, Random& random) { c.problem.kv_tiles_per_split = between(random, 1, 2); }},
    {"reverse", "kv_order", [](Call& c, Random&) { c.units.kv_order = KvOrder::reverse; }},
    {"o_empty_nan", "o_empty_row", [](Call& c, Random&) { c.units.o_empty_row = EmptyRow::nan; }},
    {"lse_empty_plus_infinity", "lse_empty_row",
     [](Call& c, Random&) { c.units.lse_empty_row = EmptyRow::plus_infinity; }},
    {"lse_empty_zero", "lse_empty_row", [](Call& c, Random&) { c.units.lse_empty_row = EmptyRow::zero; }},
    {"diagonal_offset", "diagonal_offset",
     [](Call& c, Random& random) { c.problem.diagonal_offset = between(random, -3, 5); }},
    {"uneven_splits", "splits",
     [](Call& c, Random&) {
         c.problem.split_starts = {1, 3};
     }},
    {"m_from_lse", "m_stale", [](Call& c, Random&) { c.units.m_from_lse = true; }},
    {"p_of_tile_max", "p_of_tile_max", [](Call& c, Random&) { c.units.p_of_tile_max = true; }},
    {"p_normalised", "p_normalised", [](Call& c, Random&) { c.units.p_normalised = true; }},
    {"acc_normalised", "acc_normalised", [](Call& c, Random&) { c.units.acc_normalised = true; }},
    {"k_scaled", "s_scaled",
     [](Call& c, Random&) {
         c.units.k_scale = 0.7;
         c.units.s_scaled = false;
     }},
    {"q_and_k_scaled", "s_scaled",
     [](Call& c, Random&) {
         c.units.q_scale = 0.4;
         c.units.k_scale = 1.3;
         c.units.s_scaled = false;
     }},
    {"descale_q_channel", "descale_q", set_descale<Stage::q, Share::channel, true>},
    {"descale_k_channel", "descale_k", set_descale<Stage::k, Share::channel, true>},
    {"raw_k_channel", "descale_k", set_descale<Stage::k, Share::channel, false>},
    {"descale_v_channel", "descale_v", set_descale<Stage::v, Share::channel, true>},
    {"raw_v_channel", "descale_v", set_descale<Stage::v, Share::channel, false>},
    {"raw_acc_channel", "descale_v", set_raw_acc<Share::channel>},
    {"p_takes_descale_block", "descale_v", set_descale_in_p<Share::block, DescaleInP::operand>},
    {"p_holds_descale_block", "descale_v", set_descale_in_p<Share::block, DescaleInP::recorded>},
    {"m_offset", "m_offset",
     [](Call& c, Random& random) {
         c.units.m_offset = between(random, 0, 1) == 0 ? -5.5 : double(uniform(random, 0.5, 3));
     }},
};

// What decides the bounds alone.
constexpr Option bound_option_table[] = {
    {"dequantised_casts", "operand_casts",
     [](Call& c, Random&) { c.units.q_cast = c.units.k_cast = c.units.v_cast = Dtype::bf16; }},
    {"s_cast_f16", "s_cast", [](Call& c, Random&) { c.units.s_cast = Dtype::f16; }},
    {"s_tensor_core_f32", "s_accumulation",
     [](Call& c, Random&) { c.units.s_accumulation = Accumulation::tensor_core_f32; }},
    {"s_tensor_core_tf32", "s_accumulation",
     [](Call& c, Random&) { c.units.s_accumulation = Accumulation::tensor_core_tf32; }},
    {"s_tensor_core_fp8", "s_accumulation",
     [](Call& c, Random&) { c.units.s_accumulation = Accumulation::tensor_core_fp8; }},
    {"s_fma_f16", "s_accumulation", [](Call& c, Random&) { c.units.s_accumulation = Accumulation::fma_f16; }},
    {"acc_tensor_core_f32", "acc_accumulation",
     [](Call& c, Random&) { c.units.acc_accumulation = Accumulation::tensor_core_f32; }},
    {"acc_tensor_core_f16", "acc_accumulation",
     [](Call& c, Random&) { c.units.acc_accumulation = Accumulation::tensor_core_f16; }},
    {"tanh_approx", "s_tanh", [](Call& c, Random&) { c.units.s_tanh = TanhFunction::tanh_approx; }},
    {"fast_expf", "p_exp", [](Call& c, Random&) { c.units.p_exp = ExpFunction::fast_expf; }},
    {"ex2_approx", "p_exp", [](Call& c, Random&) { c.units.p_exp = ExpFunction::ex2_approx; }},
    {"p_exp_error", "p_exp_error", [](Call& c, Random&) { c.units.p_exp_error = 1e-4; }},
    {"p_operand_e4m3", "dtype_p", [](Call& c, Random&) { c.problem.dtype_p = Dtype::e4m3; }},
    {"p_dumped_f16", "dtype_p", [](Call& c, Random&) { c.problem.dtype_p = c.units.p_cast = Dtype::f16; }},
    {"l_sums_cast_p", "l_sums_cast_p", [](Call& c, Random&) { c.units.l_sums_cast_p = true; }},
    {"acc_f16", "dtype_acc", [](Call& c, Random&) { c.problem.dtype_acc = Dtype::f16; }},
    {"o_f32", "dtype_o", [](Call& c, Random&) { c.problem.dtype_o = Dtype::f32; }},
    {"s_fma_bf16", "s_accumulation",
     [](Call& c, Random&) { c.units.s_accumulation = Accumulation::fma_bf16; }},
    {"acc_bf16", "dtype_acc", [](Call& c, Random&) { c.problem.dtype_acc = Dtype::bf16; }},
    {"p_flushed", "p_flush_below", [](Call& c, Random&) { c.units.p_flush_below = -12; }},
    {"partial_o_f16", "dtype_partial_o", [](Call& c, Random&) { c.problem.dtype_partial_o = Dtype::f16; }},
};

AttentionCall base_call(Random& random) {
    AttentionCall call;
    Problem& p = call.problem;
    p.batch = p.heads = p.heads_kv = 2;
    p.seqlen_q = between(random, 2, 9);
    p.seqlen_kv = between(random, 3, 17);
    p.head_dim = p.head_dim_v = between(random, 1, 8);
    p.block_m = between(random, 2, 5);
    p.block_n = between(random, 2, 6);
    p.sm_scale = double(uniform(random, 0.2, 0.8));
    return call;
}

}  // namespace

std::span<const Option> all_options() {
    static const std::vector<Option> options = [] {
        std::vector<Option> all(std::begin(value_option_table), std::end(value_option_table));
        all.insert(all.end(), std::begin(bound_option_table), std::end(bound_option_table));
        return all;
    }();
    return options;
}

std::span<const Option> value_options() {
    return value_option_table;
}

const Option& option_named(std::string_view name) {
    const auto found = std::ranges::find(all_options(), name, &Option::name);
    if (found == all_options().end()) throw std::invalid_argument("no option " + std::string(name));
    return *found;
}

bool can_stand_together(std::span<const Option* const> options) {
    std::vector<std::string_view> set;
    for (const Option* option : options) {
        if (std::ranges::find(set, option->sets) != set.end()) return false;
        set.push_back(option->sets);
    }
    return true;
}

AttentionCall call_with(std::span<const Option* const> options, std::uint64_t seed) {
    Random random(seed);
    AttentionCall call = base_call(random);
    for (const Option* option : options) {
        // Of its own, so that an option draws the same beside any other.
        const auto place = std::ranges::find(all_options(), option->name, &Option::name);
        Random of_option(seed * 1009 + std::uint64_t(place - all_options().begin()));
        option->apply(call, of_option);
    }
    constexpr InputKind kinds[] = {InputKind::normal, InputKind::ramped_k, InputKind::ties};
    Inputs tensors = make_inputs(call.problem, kinds[seed % std::size(kinds)], seed);
    call.inputs.q = std::move(tensors.q);
    call.inputs.k = std::move(tensors.k);
    call.inputs.v = std::move(tensors.v);
    return call;
}

std::string describe(std::span<const Option* const> options, std::uint64_t seed) {
    std::string text = "seed " + std::to_string(seed) + ", options";
    for (const Option* option : options) text += " " + std::string(option->name);
    return text;
}

Bias draw_bias(const Problem& problem, bool batch, bool heads, bool rows, bool keys, Random& random) {
    Bias bias;
    bias.batch = batch ? problem.batch : 1;
    bias.heads = heads ? problem.heads : 1;
    bias.seqlen_q = rows ? problem.seqlen_q : 1;
    bias.seqlen_kv = keys ? problem.seqlen_kv : 1;
    bias.values = uniforms(random, bias.batch * bias.heads * bias.seqlen_q * bias.seqlen_kv, -2, 2);
    return bias;
}

}  // namespace tilescope::test
