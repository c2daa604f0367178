#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

/// How the kernel goes through the tiles.
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

/// One honest way to compute the gradients in float32.
struct GradientArithmetic {
    /// Operands, scores and P. Its lse_log_base is that of the lse which the kernel is given.
    Arithmetic forward;
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
std::string describe(const GradientArithmetic& arithmetic);

/// One backward call and a way to compute it.
struct GradientCall {
    Problem problem;
    GradientArithmetic arithmetic;
    Inputs inputs;
    std::vector<float> dout;  ///< [batch][heads][seqlen_q][head_dim_v]
    std::vector<float> o;     ///< the same
    std::vector<float> lse;   ///< [batch][heads][seqlen_q]
};
std::string describe(const GradientCall& call);

/// Distributions of dout.
enum class DoutKind : std::uint8_t { normal, large, small, with_mean, huge_row, constant, zero, sparse };
inline constexpr int dout_kinds = 8;

std::vector<float> make_dout(const Problem& problem, DoutKind kind, std::uint64_t seed);

/// The call with o and lse as an honest forward kernel stores them, NaN beyond an entry's lengths.
GradientCall gradient_call(const Problem& problem, const GradientArithmetic& arithmetic, Inputs inputs,
                           std::vector<float> dout);

GradientArithmetic random_gradient_arithmetic(const Problem& problem, std::uint64_t seed);
/// Of all that there is.
GradientCall random_gradient_call(std::uint64_t seed);

/// What the recording must declare for this arithmetic and these descales.
Units units_of(const GradientArithmetic& arithmetic, const SideInputs& side = {});

/// One mistake, planted where GradientPlant says.
enum class GradientMistake : std::uint8_t {
    none,
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
inline constexpr int gradient_mistakes = 17;
std::string_view to_string(GradientMistake mistake);
/// The first stage that shows it.
Stage stage_of(GradientMistake mistake);

struct GradientPlant {
    GradientMistake mistake = GradientMistake::none;
    std::int64_t batch = -1;  ///< -1: any
    std::int64_t head = -1;   ///< query head, -1: any
    Plant forward;            ///< a mistake in the scores

    bool is(GradientMistake asked, std::int64_t in_batch, std::int64_t in_head) const {
        return mistake == asked && (batch < 0 || batch == in_batch) && (head < 0 || head == in_head);
    }
};

/// Computes the gradients in float32 as a kernel does, tile by tile, and records every stage.
MemoryRecording run_backward(const GradientCall& call, const GradientPlant& plant = {});

}  // namespace tilescope::test
