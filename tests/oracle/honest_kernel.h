#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/schema.h"
#include "tests/oracle/attention_inputs.h"
#include "tests/oracle/float_sums.h"
#include "tests/support/memory_recording.h"

namespace tilescope::test {

inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float unwritten = std::bit_cast<float>(unwritten_bits);

bool is_fp8(Dtype dtype);

/// What a kernel keeps as its scores and maxima, and what it makes its exponential of. All of them are in
/// use.
enum class Softmax : std::uint8_t {
    natural,                   ///< s = raw * scale, expf(s - m)
    natural_contracted,        ///< the same source, contracted by the compiler: expf(fma(raw, scale, -m))
    natural_exp2,              ///< exp2f((s - m) * log2e)
    natural_fast,              ///< __expf(s - m)
    raw_exp,                   ///< s = raw, expf(fma(raw, scale, -m * scale))
    raw_exp2,                  ///< s = raw, exp2f(fma(raw, scale_log2, -m * scale_log2))
    raw_exp2_unfused,          ///< s = raw, exp2f(raw * scale_log2 - m * scale_log2)
    base_two,                  ///< s = raw * scale_log2, exp2f(s - m)
    raw_with_base_two_max,     ///< s = raw, m = max * scale_log2, exp2f(fma(raw, scale_log2, -m))
    natural_with_base_two_max  ///< s = raw * scale, m = max * log2e, exp2f(fma(s, log2e, -m))
};
inline constexpr int softmaxes = 10;

/// An operand as the kernel holds it, where it has a descale or a scale.
struct Loading {
    bool dequantises = true;  ///< multiplies with the descale when it loads the operand
    Dtype cast = Dtype::f32;  ///< and rounds the result to this
    float scale = 1;          ///< multiplies with this, too, before it rounds

    bool multiplies(const Descale& descale) const { return (dequantises && !descale.empty()) || scale != 1; }
    /// What the recording declares: no cast where nothing is multiplied.
    Dtype cast_of(const Descale& descale) const { return multiplies(descale) ? cast : Dtype::f32; }
};

/// How a backward kernel goes through the tiles.
enum class LoopNest : std::uint8_t {
    keys_outside,  ///< FlashAttention-2: dk and dv stay with the KV tile, dq is added up by atomics
    two_passes     ///< dq along the rows of tiles, then dk and dv along the columns
};

/// Order of the products that ds is made of.
enum class DsOrder : std::uint8_t {
    difference_first,  ///< (p (dp - delta)) cap' scale
    cap_first,         ///< (p cap') (dp - delta) scale
    scale_first        ///< p ((dp - delta) scale) cap'
};
inline constexpr int ds_orders = 3;

/// One honest way to compute attention, or its gradients, in float32.
struct Arithmetic {
    Softmax softmax = Softmax::natural;
    Sum score_sum = Sum::sequential;
    Sum pv_sum = Sum::sequential;
    std::string compute_capability;  ///< of the device whose tensor cores the sums are like
    std::int64_t lanes = 4;          ///< threads that share a row's sum
    bool worst_exp = false;          ///< the exponential errs by most of the 2 ulp it may
    double exp_error = 0;      ///< of the polynomial of degree 3 in place of the exponential; 0: not in use
    bool separate_pv = false;  ///< acc = fma(acc, factor, p v) rather than a sum that starts at acc * factor
    bool reciprocal = false;   ///< o = acc * (1 / l), and other divisions alike
    bool approximate = false;  ///< division and logarithm of -use_fast_math, at their documented bounds
    bool skips_hidden_tiles = true;
    TanhFunction tanh = TanhFunction::tanhf;
    bool separate_alibi = false;  ///< slope * key - slope * diagonal rather than slope * distance
    double stale_threshold = 0;   ///< how far m may stay behind, in natural units
    Loading q;
    Loading k;
    Loading v;
    bool acc_dequantised = true;  ///< products with a V that is not dequantised are, as they join acc
    DescaleInP p_descale = DescaleInP::none;  ///< that P takes in place of V, before its cast
    bool unscaled_in_gradients = false;       ///< dq and dk multiply k and q as they were before their scales
    Dtype p_operand = Dtype::f32;
    double p_scale = 1;
    bool p_scale_in_exponent = false;  ///< exp(s - m + ln p_scale) rather than p_scale * exp(s - m)
    bool l_scaled = true;              ///< l adds scaled P
    bool acc_scaled = true;            ///< products of scaled P are not divided as they join acc
    Dtype kept_s = Dtype::f32;         ///< that scores are rounded to, as the softmax takes them
    float masked_s = -std::numeric_limits<float>::infinity();
    bool guards_rows_without_keys = true;  ///< of which only masked_s is the maximum
    bool sink_rescales = false;            ///< a sink that comes last may become the maximum
    bool dumps_unmasked_s = false;
    bool dumps_uncapped_s = false;
    bool dumps_unbiased_s = false;
    bool dumps_cast_p = false;
    bool l_sums_cast_p = false;
    EmptyRow o_empty_row = EmptyRow::zero;
    EmptyRow lse_empty_row = EmptyRow::minus_infinity;
    bool lse_includes_sink = true;
    LogBase lse_log_base = LogBase::e;  ///< in a backward kernel, of the lse that it is given
    KvOrder kv_order = KvOrder::forward;
    // What only a backward kernel has.
    std::int64_t delta_lanes = 4;  ///< threads that share a row of dout * o
    Sum dp_sum = Sum::sequential;
    Sum dq_sum = Sum::sequential;
    Sum dk_sum = Sum::sequential;
    Sum dv_sum = Sum::sequential;
    Dtype ds_operand = Dtype::f32;
    double ds_scale = 1;
    DsOrder ds_order = DsOrder::difference_first;
    bool ds_from_cast_p = false;
    bool dumps_cast_ds = false;
    bool dumps_uncapped_ds = false;  ///< the derivative of the cap comes after the dump
    bool fused_cap = false;          ///< cap' = fma(-t, t, 1) rather than 1 - t t
    LoopNest nest = LoopNest::keys_outside;
    bool dkv_atomic = false;      ///< dk and dv are added up by atomics as well
    bool group_in_parts = false;  ///< dk and dv of each query head by itself, then their sum
    bool reversed_blocks = false;
    bool skips_hidden_terms = false;  ///< products with a hidden element are not computed
    std::uint64_t order_seed = 0;     ///< of heads and atomics
};
/// Of a forward kernel.
Arithmetic random_arithmetic(std::uint64_t seed);
/// Of the problem's pass.
Arithmetic random_arithmetic(const Problem& problem, std::uint64_t seed);
std::string describe(const Arithmetic& arithmetic);

/// What the recording must declare for this arithmetic and these descales.
Units units_of(const Arithmetic& arithmetic, const SideInputs& side = {});

/// One call of either pass and a way to compute it.
struct Call {
    Problem problem;
    Arithmetic arithmetic;
    Inputs inputs;
};
/// One with inputs of a kind; dout of a backward call is normal.
Call make_call(const Problem& problem, std::uint64_t seed, const Arithmetic& arithmetic = {},
               InputKind kind = InputKind::normal);
/// The backward call with o and lse as an honest forward kernel stores them, NaN beyond an entry's lengths.
Call gradient_call(const Problem& problem, const Arithmetic& arithmetic, Inputs inputs,
                   std::vector<float> dout);
/// Of all forward calls that there are.
Call random_call(InputKind kind, std::uint64_t seed);
/// Of all of the pass, with inputs of any kind.
Call random_call(Direction direction, std::uint64_t seed);
std::string describe(const Call& call);

/// One mistake, planted where Plant says: a row of the table in plants.h, which says what each does.
enum class Mistake : std::uint8_t {
    none,
    // Those that every problem can show.
    q_row_zeroed,
    stale_k_tile,
    swapped_v_tile,
    mask_off_by_one,
    scaled_twice,
    max_of_half_tile,
    p_clamped,
    l_not_rescaled,
    acc_not_rescaled,
    o_not_normalised,
    o_normalised_twice,
    lse_base_two,
    // The others, by stage.
    q_tail_rows_zeroed,
    k_rows_not_loaded,
    v_rows_not_loaded,
    kv_tile_late,
    v_next_tile,
    q_rows_shifted,
    k_rows_shifted,
    kv_head_modulo,
    kv_head_zero,
    kv_of_first_batch,
    q_bshd_as_bhsd,
    k_bshd_as_bhsd,
    q_descale_twice,
    k_descale_missing,
    v_descale_of_other_head,
    q_rounded_to_bf16,
    k_rounded_to_e4m3,
    k_staged_transposed,
    v_columns_permuted,
    q_head_dim_truncated,
    scale_missing,
    scale_inverted,
    scale_of_padded_head_dim,
    scores_times_log2e,
    scores_halved,
    scores_times_sqrt_d,
    scores_times_odd_number,
    descale_q_missing_in_s,
    descale_k_twice_in_s,
    descale_k_of_other_head_in_s,
    causal_top_left,
    causal_bottom_right,
    causal_ignored,
    mask_one_less,
    mask_tile_local,
    mask_row_of_group,
    window_ignored,
    window_exclusive,
    window_wider,
    tail_of_zeros,
    tail_stale,
    tail_of_next_rows,
    cap_missing,
    masked_before_cap,
    bias_missing,
    bias_before_scale,
    alibi_missing,
    alibi_sign,
    alibi_of_other_head,
    alibi_offset,
    scores_summed_in_half,
    k_slice_missing,
    head_dim_truncated_in_s,
    k_not_transposed,
    k_wrong_leading_dimension,
    score_columns_permuted,
    scores_of_tile_before,
    first_fragment_only,
    one_lane_only,
    m_not_carried,
    m_starts_at_zero,
    m_starts_at_sentinel,
    max_of_own_lane,
    max_of_four_rows,
    m_in_other_base,
    p_of_base_two,
    p_of_base_e,
    p_of_old_max,
    p_rounded_to_bf16,
    p_rounded_to_e4m3,
    masked_p_of_one,
    inf_minus_inf,
    p_scale_missing,
    p_not_saturated,
    p_flushed,
    p_lane_stride,
    l_rescaled_inversely,
    l_rescaled_twice,
    l_starts_at_one,
    l_of_half_row,
    l_of_own_lane,
    l_counted_per_lane,
    l_of_cast_p,
    l_of_uncast_p,
    l_of_four_rows,
    l_not_carried,
    l_floored,
    sink_missing_at_start,
    sink_twice_at_start,
    sink_of_other_head,
    acc_rescaled_inversely,
    acc_rescaled_twice,
    acc_rescaled_by_other_row,
    acc_not_carried,
    half_accumulator,
    acc_kept_in_half,
    nan_times_zero,
    v_of_tile_before,
    v_not_transposed,
    v_wrong_leading_dimension,
    pv_slice_missing,
    p_of_tile_before,
    acc_columns_uncovered,
    acc_rows_uncovered,
    descale_v_missing_in_acc,
    descale_v_twice_in_acc,
    descale_v_of_other_head_in_acc,
    p_scale_left_in_acc,
    uncast_p_multiplied,
    epsilon_in_denominator,
    o_halved,
    split_dropped,
    splits_averaged,
    split_base_mixed,
    o_of_other_head,
    o_rounded_to_bf16,
    empty_row_nan,
    sink_missing_in_denominator,
    o_columns_uncovered,
    o_rows_uncovered,
    p_scale_left_in_o,
    lse_without_max,
    lse_without_log,
    lse_of_max_alone,
    lse_sink_missing,
    lse_sign,
    s_stripes_unwritten,
    p_rows_unwritten,
    s_tile_edge_wrong,
    acc_columns_periodic,
    s_rows_periodic,
    s_of_one_warp_wrong,
    p_of_one_head_wrong,
    s_of_one_batch_wrong,
    acc_of_one_tile_wrong,
    k_fragment_linear,
    p_fragment_linear,
    s_accumulator_not_zeroed,
    bias_of_next_head,
    alibi_times_scale,
    fp8_sum_of_scores,
    last_tile_skipped,
    negative_codes_lost,
    tail_of_nan,
    sink_times_scale,
    p_truncated,
    p_truncated_for_v,
    o_truncated,
    // Those of backward kernels.
    dout_of_next_block,
    delta_of_next_o,    ///< dout of a row times o of the next
    p_from_max,         ///< the maximum of the tile in place of lse
    lse_base_confused,  ///< lse to the base e taken as one to the base 2, or the other way round
    p_not_masked,       ///< takes a dump of s before its mask
    ds_without_delta,
    ds_delta_of_next_row,
    ds_without_p,
    ds_without_cap,  ///< takes a cap
    dq_not_scaled,
    dq_tile_lost,  ///< that of KV tile 1: another thread block overwrote it
    dk_scaled_twice,
    dk_of_wrong_heads,  ///< every heads_kv-th in place of neighbours: takes GQA and group_in_parts
    dk_without_last_block,
    tail_rows_counted,  ///< rows of the block before, in place of those that the last block has not
    dv_untransposed
};
/// Those that every problem of the pass can show, or that the comments above say what it takes for.
std::vector<Mistake> mistakes_of(Direction direction);
std::string_view to_string(Mistake mistake);
/// The first stage that shows it.
Stage stage_of(Mistake mistake);

struct Plant {
    Mistake mistake = Mistake::none;
    std::int64_t batch = -1;     ///< -1: any
    std::int64_t head = -1;      ///< -1: any
    std::int64_t row = -1;       ///< q row, -1: any
    std::int64_t from_tile = 0;  ///< KV tiles from here on

    bool applies(std::int64_t in_batch, std::int64_t in_head, std::int64_t tile) const {
        return mistake != Mistake::none && (batch < 0 || batch == in_batch) &&
               (head < 0 || head == in_head) && tile >= from_tile;
    }
    bool applies_to_row(std::int64_t in_row) const { return row < 0 || row == in_row; }
    bool is(Mistake asked, std::int64_t in_batch, std::int64_t in_head) const {
        return mistake == asked && applies(in_batch, in_head, from_tile);
    }
};

/// A dumped element that the mistake changed, against the same step done right.
struct Changed {
    TileId tile;
    std::int64_t row = 0;
    std::int64_t col = 0;
};

struct KernelRun {
    MemoryRecording recording;
    /// Of each stage the first in order of KV tile, batch, head, row, column.
    std::array<std::optional<Changed>, built_in_stages> changed = {};

    /// That of the first stage that the mistake changed.
    std::optional<Changed> first_changed() const;
};

/// Computes the problem's pass in float32 as a kernel does, tile by tile, and records every stage.
KernelRun run_kernel(const Call& call, const Plant& plant = {});
/// What it records.
MemoryRecording recorded(const Call& call, const Plant& plant = {});

/// The same tiles as of another call: what the kernel got wrong is what differs.
MemoryRecording declared_as(const Recording& run, const Problem& problem, const Units& units,
                            const Inputs& inputs);

}  // namespace tilescope::test
