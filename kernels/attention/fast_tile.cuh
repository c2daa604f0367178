#pragma once

// One KV tile of the fast kernel, in a warp's registers: scores, maximum, P, row sum, accumulator.

#include "dump/hook.h"
#include "kernels/attention/fast_config.cuh"
#ifdef DEBUG_DUMP
#include "kernels/attention/fast_hooks.cuh"
#endif

namespace tilescope::KERNEL_BUILD {

/// The scores of the warp's rows, not scaled.
template <class Config>
KERNEL_FUNCTION void multiply_q_k(FastScores<Config>& s, FastQ<Config>& q, std::uint32_t q_tile,
                                  std::uint32_t k_tile, const FastThread& thread) {
    using Element = typename Config::Element;
    KERNEL_UNROLL
    for (auto& of_row : s) {
        KERNEL_UNROLL
        for (auto& of_tile : of_row) {
            KERNEL_UNROLL
            for (float& score : of_tile) score = 0.0f;
        }
    }
    const std::uint32_t k_row = columns_first<Config>(k_tile, thread.lane);
    const std::uint32_t q_row =
        rows_first<Config>(q_tile + std::uint32_t(thread.first_row * Config::row_bytes), thread.lane);
    KERNEL_UNROLL
    for (int depth = 0; depth < Config::depths; ++depth) {
        if (FAULT(k_slice_missing) && depth == Config::depths - 1) break;
        std::uint32_t loaded[Config::row_tiles][4];
        const auto& a = Config::q_in_registers ? q[depth] : loaded;
        if constexpr (!Config::q_in_registers) {
            KERNEL_UNROLL
            for (int row = 0; row < Config::row_tiles; ++row) {
                load_matrices(loaded[row], (q_row ^ depth * 2 * chunk_bytes) + row * 16 * Config::row_bytes);
            }
        }
        KERNEL_UNROLL
        for (int column = 0; column < Config::key_tiles; column += 2) {
            if (FAULT(first_fragment_only) && column > 0) break;
            std::uint32_t k[4];
            load_matrices(k, (k_row ^ depth * 2 * chunk_bytes) + column * 8 * Config::row_bytes);
            KERNEL_UNROLL
            for (int row = 0; row < Config::row_tiles; ++row) {
                multiply_add<Element>(s[row][column], a[row], k[0], k[1]);
                multiply_add<Element>(s[row][column + 1], a[row], k[2], k[3]);
            }
        }
    }
}

KERNEL_FUNCTION int diagonal_offset(const AttentionArgs& args) {
    return FAULT(causal_top_left) ? 0 : args.causal_offset;
}

/// Puts -inf where a query of the warp does not see a key.
template <class Config>
KERNEL_FUNCTION void mask_scores(FastScores<Config>& s, const AttentionArgs& args, int first_query,
                                 int first_key, int lane) {
    const int end = FAULT(tail_counted) ? first_key + Config::block_n : args.seqlen_kv;
    const int first_seen_key = FAULT(mask_tile_local) ? 0 : first_key;
    KERNEL_UNROLL
    for (int row = 0; row < 2 * Config::row_tiles; ++row) {
        const int query = first_query + row * 8 + lane / 4;
        const int last = args.causal ? smaller(end - 1, query + diagonal_offset(args)) : end - 1;
        const int last_column = last - first_seen_key - lane % 4 * 2;
        KERNEL_UNROLL
        for (int column = 0; column < Config::key_tiles; ++column) {
            float(&scores)[4] = s[row / 2][column];
            if (column * 8 > last_column) scores[row % 2 * 2] = -INFINITY;
            if (column * 8 + 1 > last_column) scores[row % 2 * 2 + 1] = -INFINITY;
        }
    }
}

/// Masks the tiles that some query of the warp sees only in part.
template <class Config>
KERNEL_FUNCTION void mask_edge(FastScores<Config>& s, const AttentionArgs& args, int first_query,
                               int first_key, int lane) {
    const int seen_by_all =
        args.causal ? smaller(args.seqlen_kv, first_query + diagonal_offset(args) + 1) : args.seqlen_kv;
    if (first_key + Config::block_n > seen_by_all) {
        mask_scores<Config>(s, args, first_query, first_key, lane);
    }
    if (FAULT(half_scores)) {
        KERNEL_UNROLL
        for (auto& of_row : s) {
            KERNEL_UNROLL
            for (auto& of_tile : of_row) {
                KERNEL_UNROLL
                for (float& score : of_tile) score = to_float(to_half(score));
            }
        }
    }
}

/// The largest of a lane's scores in one of its rows; `half` is 0, or 1 for the row 8 below.
template <class Config>
KERNEL_FUNCTION float lane_max(const AttentionArgs& args, const float (&s)[Config::key_tiles][4], int half,
                               int first_key, int lane) {
    float largest = -INFINITY;
    KERNEL_UNROLL
    for (int column = 0; column < Config::key_tiles; ++column) {
        KERNEL_UNROLL
        for (int i = 0; i < 2; ++i) {
            const int key = first_key + column * 8 + lane % 4 * 2 + i;
            largest = max_with(args, largest, s[column][half * 2 + i], key);
        }
    }
    return largest;
}

/// The largest value of lanes whose numbers differ in bits from `first` to `last`.
template <int first, int last>
KERNEL_FUNCTION float lanes_max(float lane_max) {
    float largest = lane_max;
    KERNEL_UNROLL
    for (int distance = first; distance <= last; distance *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    }
    return largest;
}

/// The largest value of the four lanes that share a row.
KERNEL_FUNCTION float row_max_of(float lane_max) {
    if (FAULT(max_own_lane)) return lane_max;
    if (FAULT(wrong_lanes)) return lanes_max<4, 8>(lane_max);
    if (FAULT(row_state_shared)) return lanes_max<1, 16>(lane_max);
    return lanes_max<1, 2>(lane_max);
}

/// What scores are compared with in one row.
KERNEL_FUNCTION float compared_max(float row_max) {
    return FAULT(inf_minus_inf) ? row_max : finite_max(row_max);
}

/// Raises the maxima to those of the tile, and rescales what was summed up under the maxima before.
template <class Config>
KERNEL_FUNCTION void raise_max(FastRows<Config>& rows, const FastScores<Config>& s, const AttentionArgs& args,
                               float scale, int first_key, int lane) {
    float rescale[Config::row_tiles][2];
    bool raised = false;
    KERNEL_UNROLL
    for (int row = 0; row < Config::row_tiles; ++row) {
        KERNEL_UNROLL
        for (int half = 0; half < 2; ++half) {
            const float tile_max = row_max_of(lane_max<Config>(args, s[row], half, first_key, lane));
            const float before = rows.m[row][half];
            const float now = fmaxf(before, tile_max);
            rows.m[row][half] = now;
            rescale[row][half] = power_of_two((before - finite_max(now)) * scale);
            if (!FAULT(l_not_rescaled)) rows.l[row][half] *= rescale[row][half];
            raised = raised || rescale[row][half] != 1.0f;
        }
    }
    // After a few tiles mostly none rises.
    if (!__any_sync(0xffffffffu, raised)) return;
    KERNEL_UNROLL
    for (int row = 0; row < Config::row_tiles; ++row) {
        KERNEL_UNROLL
        for (auto& of_tile : rows.acc[row]) {
            KERNEL_UNROLL
            for (int i = 0; i < 4; ++i) of_tile[i] = rescaled(of_tile[i], rescale[row][i / 2]);
        }
    }
}

/// exp(scale * (score - row maximum)), to base two; `scaled_max` is scale * row maximum.
KERNEL_FUNCTION float power(float score, float scale, float scaled_max) {
    const float argument = fmaf(score, scale, -scaled_max);
    return power_of_two(FAULT(exp_clamped) ? fmaxf(argument, -5.0f) : argument);
}

/// P of 16 keys as the operand of the product with V, and its part of the row sums.
template <class Config>
KERNEL_FUNCTION void probabilities(std::uint32_t (&p)[4], float (&l)[2],
                                   const float (&s)[Config::key_tiles][4], const float (&scaled_max)[2],
                                   float scale, int depth) {
    KERNEL_UNROLL
    for (int i = 0; i < 4; ++i) {
        const float* const pair = &s[depth * 2 + i / 2][i % 2 * 2];
        const float first = power(pair[0], scale, scaled_max[i % 2]);
        const float second = power(pair[1], scale, scaled_max[i % 2]);
        l[i % 2] += first;
        l[i % 2] += second;
        p[i] = pack<typename Config::Element>(staged_p(first), staged_p(second));
    }
}

/// P of the tile, its row sums, and acc += P V.
template <class Config>
KERNEL_FUNCTION void multiply_p_v(FastRows<Config>& rows, const FastScores<Config>& s, float scale,
                                  std::uint32_t v_tile, const FastThread& thread,
                                  int kv_tile TILESCOPE_CALL_PARAM) {
    using Element = typename Config::Element;
    const float p_scale = FAULT(log2e_missing) ? scale / log2_e : scale;
    float scaled_max[Config::row_tiles][2];
    KERNEL_UNROLL
    for (int row = 0; row < 2 * Config::row_tiles; ++row) {
        scaled_max[row / 2][row % 2] = compared_max(rows.m[row / 2][row % 2]) * p_scale;
    }
    const std::uint32_t v_row = rows_first<Config>(v_tile, thread.lane);
    std::uint32_t p[Config::row_tiles][Config::key_depths][4];
    KERNEL_UNROLL
    for (int depth = 0; depth < Config::key_depths; ++depth) {
        KERNEL_UNROLL
        for (int row = 0; row < Config::row_tiles; ++row) {
            probabilities<Config>(p[row][depth], rows.l[row], s[row], scaled_max[row], p_scale, depth);
        }
        KERNEL_UNROLL
        for (int feature = 0; feature < Config::feature_tiles; feature += 2) {
            std::uint32_t v[4];
            const std::uint32_t at = (v_row ^ feature * chunk_bytes) + depth * 16 * Config::row_bytes;
            if (FAULT(v_not_transposed)) {
                load_matrices(v, at);
            } else {
                load_matrices_transposed(v, at);
            }
            KERNEL_UNROLL
            for (int row = 0; row < Config::row_tiles; ++row) {
                multiply_add<Element>(rows.acc[row][feature], p[row][depth], v[0], v[1]);
                multiply_add<Element>(rows.acc[row][feature + 1], p[row][depth], v[2], v[3]);
            }
        }
    }
    TILESCOPE_FRAGMENT(p, kv_tile, pairs_of<Config>(p),
                       MmaAccumulators<Config::key_tiles>{thread.first_row, 0, thread.lane});
}

}  // namespace tilescope::KERNEL_BUILD
