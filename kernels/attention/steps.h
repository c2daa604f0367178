#pragma once

// The formulas that the kernels share, each with the faults that get it wrong. Fused multiply-adds are
// written out, and kernels are compiled without contraction: a hook that looks at a value must not change how
// it is computed.

#include "kernels/attention/attention_args.h"
#include "kernels/attention/guards.h"
#include "kernels/attention/platform.h"
#include "kernels/attention/played_fault.h"

namespace tilescope {

/// The largest shared memory that a thread block can have on every target architecture (8.9 has the least).
inline constexpr int shared_memory_budget = 99 * 1024;

struct Larger {
    KERNEL_FUNCTION float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Plus {
    KERNEL_FUNCTION float operator()(float a, float b) const { return a + b; }
};

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

KERNEL_FUNCTION int smaller(int a, int b) {
    return a < b ? a : b;
}

/// The KV head that query head `head` reads.
KERNEL_FUNCTION int head_kv(const AttentionArgs& args, int head) {
    if (FAULT(head_modulo)) {
        return head % args.heads_kv;
    } else {
        return head / (args.heads / args.heads_kv);
    }
}

/// KV tiles up to the last one of which some query of the block sees a key; those after it are skipped.
template <class Config>
KERNEL_FUNCTION int kv_tile_count(const AttentionArgs& args, int q_block) {
    const int last_query = smaller(args.seqlen_q, (q_block + 1) * Config::block_m) - 1;
    const int keys =
        args.causal ? smaller(args.seqlen_kv, last_query + args.causal_offset + 1) : args.seqlen_kv;
    return keys > 0 ? (keys + Config::block_n - 1) / Config::block_n : 0;
}

/// Rows of an operand that a tile holds: [first, first + block), of which those from `end` on are zeroed.
struct RowRange {
    int first;
    int end;
};

template <class Config>
KERNEL_FUNCTION RowRange q_rows(const AttentionArgs& args, int q_block) {
    const int first = q_block * Config::block_m;
    const int end = smaller(first + Config::block_m, args.seqlen_q);
    return {first, FAULT(q_row_zeroed) ? end - 1 : end};
}

/// Where the rows of one head of Q begin, and how many elements lie between two of them.
struct RowLayout {
    std::int64_t first;
    std::int64_t stride;
};

template <class Config>
KERNEL_FUNCTION RowLayout q_layout(const AttentionArgs& args, int batch, int head) {
    if (FAULT(bshd_as_bhsd)) {
        return {(std::int64_t(batch) * args.seqlen_q * args.heads + head) * Config::head_dim,
                std::int64_t(args.heads) * Config::head_dim};
    } else {
        return {(std::int64_t(batch) * args.heads + head) * args.seqlen_q * Config::head_dim,
                Config::head_dim};
    }
}

template <class Config>
KERNEL_FUNCTION RowRange k_rows(const AttentionArgs& args, int kv_tile) {
    const int tile = FAULT(stale_k_tile) && kv_tile >= 2 ? kv_tile - 1 : kv_tile;
    return {tile * Config::block_n, args.seqlen_kv};
}

template <class Config>
KERNEL_FUNCTION RowRange v_rows(const AttentionArgs& args, int kv_tile) {
    const int first = (FAULT(v_next_tile) ? kv_tile + 1 : kv_tile) * Config::block_n;
    return {first, FAULT(nan_times_zero) ? first + Config::block_n : args.seqlen_kv};
}

/// Elements of head_dim that a score sums over.
template <class Config>
KERNEL_FUNCTION int score_depth() {
    return FAULT(k_slice_missing) ? Config::head_dim - 16 : Config::head_dim;
}

/// The element of head_dim that the calling lane's dot products begin with.
template <class Config>
KERNEL_FUNCTION int first_depth(int lane) {
    return FAULT(score_in_lane_0) ? lane * (Config::head_dim / Config::lanes) : 0;
}

/// Place of element `depth` of a key in its tile.
template <class Config>
KERNEL_FUNCTION int place_in_k(int column, int depth) {
    return FAULT(k_row_major) ? depth * Config::ld + column : column * Config::ld + depth;
}

/// The key of a column of a tile, as the mask sees it.
template <class Config>
KERNEL_FUNCTION int masked_key(int kv_tile, int column) {
    return FAULT(mask_tile_local) ? column : kv_tile * Config::block_n + column;
}

/// The score as the softmax sees it: scaled, -inf where masked.
template <class Guards = NoGuards>
KERNEL_FUNCTION float masked_score(const AttentionArgs& args, float product, int query, int key) {
    if (FAULT(half_scores)) product = to_float(to_half(product));
    float score = product * args.sm_scale;
    if (FAULT(scale_twice)) score *= args.sm_scale;
    if constexpr (Guards::replaces_non_finite) {
        if (!(fabsf(score) < INFINITY)) score = -INFINITY;
    }

    const int offset = FAULT(causal_top_left) ? 0 : args.causal_offset;
    const bool in_sequence = FAULT(tail_counted) || key < args.seqlen_kv;
    const bool visible = in_sequence && (!args.causal || key <= query + offset);
    return visible ? score : -INFINITY;
}

/// The row maximum with one more score.
KERNEL_FUNCTION float max_with(const AttentionArgs& args, float row_max, float score, int key) {
    if (FAULT(tail_counted) && key >= args.seqlen_kv) return row_max;
    return fmaxf(row_max, score);
}

KERNEL_FUNCTION float first_max() {
    return FAULT(m_starts_at_zero) ? 0.0f : -INFINITY;
}

/// What scores are compared with: the maximum, or 0 in a row that saw no key yet, where every P is 0.
KERNEL_FUNCTION float finite_max(float row_max) {
    return row_max == -INFINITY ? 0.0f : row_max;
}

/// Gives the lanes of a row the largest of their scores.
template <class Config, class Block, class Values>
KERNEL_FUNCTION void reduce_max(Block& block, Values& values) {
    if (FAULT(wrong_lanes)) {
        block.template reduce_rows<32 / Config::lanes, Config::lanes>(values, Larger());
    } else if (FAULT(row_state_shared)) {
        block.template reduce_rows<32>(values, Larger());
    } else if (FAULT(max_in_lane_0)) {
        block.template reduce_to_first<Config::lanes>(values, Larger());
    } else if (!FAULT(max_own_lane)) {
        block.template reduce_rows<Config::lanes>(values, Larger());
    }
}

/// exp(score - row_max).
template <class Guards = NoGuards>
KERNEL_FUNCTION float probability(float score, float row_max) {
    const float argument = score - (FAULT(inf_minus_inf) ? row_max : finite_max(row_max));
    const float least = FAULT(exp_clamped) ? -5.0f : Guards::least_exponent;
    if constexpr (Guards::least_exponent > -INFINITY) {
        const bool masked = !FAULT(inf_minus_inf) && score == -INFINITY;
        return masked ? 0.0f : expf(fmaxf(argument, least));
    } else if (FAULT(exp_clamped)) {
        return expf(fmaxf(argument, least));
    } else {
        return expf(argument);
    }
}

/// P as the PV product reads it, before the cast to its operand type.
KERNEL_FUNCTION float staged_p(float p) {
    if (FAULT(p_bf16)) {
#ifdef __CUDA_ARCH__
        std::uint32_t bits = __float_as_uint(p);
#else
        std::uint32_t bits = __builtin_bit_cast(std::uint32_t, p);
#endif
        bits += 0x7fffu + ((bits >> 16) & 1u);
        bits &= 0xffff0000u;
#ifdef __CUDA_ARCH__
        return __uint_as_float(bits);
#else
        return __builtin_bit_cast(float, bits);
#endif
    } else {
        return p;
    }
}

/// Whether the `step`-th column of a lane, which has this score, is stored to P.
KERNEL_FUNCTION bool p_is_filled(int step, float score) {
    if (FAULT(p_tail_kept)) return score != -INFINITY;
    return !FAULT(p_lane_stride) || step % 2 == 0;
}

/// The running row sum after a tile: `rescale` is exp(old maximum - new maximum).
KERNEL_FUNCTION float next_row_sum(float row_sum, float rescale, float tile_sum) {
    if (FAULT(l_not_rescaled)) {
        return row_sum + tile_sum;
    } else {
        return fmaf(row_sum, rescale, tile_sum);
    }
}

/// An element of the accumulator before a tile is added.
KERNEL_FUNCTION float rescaled(float acc, float rescale) {
    if (FAULT(acc_not_rescaled)) {
        return acc;
    } else {
        return acc * rescale;
    }
}

/// An element of the accumulator as it is kept after a tile.
KERNEL_FUNCTION float kept(float acc) {
    if (FAULT(half_accumulator)) {
        return to_float(to_half(acc));
    } else {
        return acc;
    }
}

/// Features of the output that a fault leaves out.
inline constexpr int uncovered = 16;

/// Features of the output that are written.
template <class Config>
KERNEL_FUNCTION int covered_features() {
    return FAULT(columns_uncovered) ? Config::head_dim - uncovered : Config::head_dim;
}

/// Whether the output of a row of the block is written.
template <class Config>
KERNEL_FUNCTION bool row_is_covered(int row) {
    if (FAULT(rows_uncovered)) return row < Config::block_m / 3 * 3;
    return true;
}

/// An element of the output; 0 in a row that saw no key.
template <class Guards = NoGuards>
KERNEL_FUNCTION Half normalised(float acc, float row_sum) {
    if constexpr (Guards::epsilon > 0.0f) {
        row_sum += FAULT(epsilon_too_large) ? 1e-3f : Guards::epsilon;
    }
    float o = row_sum == 0.0f ? 0.0f : acc / row_sum;
    if (FAULT(not_normalised)) o = acc;
    if (FAULT(double_normalised)) o = row_sum == 0.0f ? 0.0f : o / row_sum;
    return to_half(o);
}

/// log(sum(exp(score))) of a row; -inf in a row that saw no key.
KERNEL_FUNCTION float log_sum_exp(float row_max, float row_sum) {
    float lse = row_sum == 0.0f ? -INFINITY : row_max + logf(row_sum);
    if (FAULT(lse_base2)) lse *= 1.44269504f;
    return stored(lse);
}

}  // namespace tilescope::KERNEL_BUILD
