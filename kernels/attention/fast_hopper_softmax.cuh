#pragma once

// The softmax of the warp-specialised fast kernel, in registers. A thread has two rows of the 16 of its warp,
// lane / 4 and the one 8 below. Value i of its part of an accumulator is in row i / 2 % 2 of these, and in
// column i / 4 * 8 + lane % 4 * 2 + i % 2.

#include "kernels/attention/fast_hopper_scales.cuh"
#include "kernels/attention/fast_tile.cuh"

namespace tilescope {

/// What a thread keeps of its rows.
template <class Config>
struct HopperRows {
    float acc[Config::outputs];
    float m[2];  ///< not scaled
    float l[2];  ///< the sum of the thread's own columns
};

/// P as the operand of the product with V, in the order of an accumulator: two elements in a register, or four of
/// e4m3, pairs from two 8 keys.
template <class Config>
using HopperP = std::uint32_t[Config::key_depths][4];

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

/// Puts -inf where a query does not see a key, in tiles that some query of the warp sees only in part.
template <class Config>
KERNEL_FUNCTION void mask_tile(float (&s)[Config::scores], const AttentionArgs& args, int first_query,
                               int first_key, int lane) {
    const int seen_by_all =
        args.causal ? smaller(args.seqlen_kv, first_query + diagonal_offset(args) + 1) : args.seqlen_kv;
    if (first_key + Config::block_n <= seen_by_all) return;
    KERNEL_UNROLL
    for (int row = 0; row < 2; ++row) {
        const int query = first_query + row * 8 + lane / 4;
        const int last =
            args.causal ? smaller(args.seqlen_kv - 1, query + diagonal_offset(args)) : args.seqlen_kv - 1;
        const int last_column = last - first_key - lane % 4 * 2;
        KERNEL_UNROLL
        for (int i = row * 2; i < Config::scores; i += 4) {
            if (i / 4 * 8 > last_column) s[i] = -INFINITY;
            if (i / 4 * 8 + 1 > last_column) s[i + 1] = -INFINITY;
        }
    }
}

/// Raises the maxima to those of the tile. What was summed up under the ones before is to be multiplied with
/// `rescale`.
template <class Config>
KERNEL_FUNCTION void raise_maxima(float (&rescale)[2], HopperRows<Config>& rows,
                                  const float (&s)[Config::scores], float scale) {
    KERNEL_UNROLL
    for (int row = 0; row < 2; ++row) {
        // Two chains, which do not wait for each other.
        float even = s[row * 2];
        float odd = s[row * 2 + 1];
        KERNEL_UNROLL
        for (int i = row * 2 + 4; i < Config::scores; i += 4) {
            even = fmaxf(even, s[i]);
            odd = fmaxf(odd, s[i + 1]);
        }
        const float before = rows.m[row];
        rows.m[row] = fmaxf(before, row_max_of(fmaxf(even, odd)));
        rescale[row] = power_of_two((before - finite_max(rows.m[row])) * scale);
    }
}

/// Scores become probabilities, which are added to the row sums.
template <class Config>
KERNEL_FUNCTION void exponentials(float (&s)[Config::scores], HopperRows<Config>& rows,
                                  const float (&rescale)[2], float scale) {
    float scaled_max[2];
    float sums[2][2];
    KERNEL_UNROLL
    for (int row = 0; row < 2; ++row) {
        scaled_max[row] = compared_max(rows.m[row]) * scale;
        if constexpr (Config::is_fp8) scaled_max[row] -= p_exponent<Config>;
        sums[row][0] = FAULT(l_not_rescaled) ? rows.l[row] : rows.l[row] * rescale[row];
        sums[row][1] = 0.0f;
    }
    KERNEL_UNROLL
    for (int i = 0; i < Config::scores; ++i) {
        s[i] = power(s[i], scale, scaled_max[i / 2 % 2]);
        sums[i / 2 % 2][i % 2] += s[i];
    }
    KERNEL_UNROLL
    for (int row = 0; row < 2; ++row) rows.l[row] = sums[row][0] + sums[row][1];
}

template <class Config>
KERNEL_FUNCTION void rescale_acc(HopperRows<Config>& rows, const float (&rescale)[2]) {
    KERNEL_UNROLL
    for (int i = 0; i < Config::outputs; ++i) {
        rows.acc[i] = rescaled(rows.acc[i], rescale[i / 2 % 2]);
    }
}

/// Four neighbours in V along the keys.
KERNEL_FUNCTION std::uint32_t pack_codes(float first, float second, float third, float fourth) {
    return to_e4m3_pair(first, second) | to_e4m3_pair(third, fourth) << 16;
}

template <class Config>
KERNEL_FUNCTION void pack_p(HopperP<Config>& p, const float (&s)[Config::scores]) {
    KERNEL_UNROLL
    for (int depth = 0; depth < Config::key_depths; ++depth) {
        KERNEL_UNROLL
        for (int i = 0; i < 4; ++i) {
            if constexpr (Config::is_fp8) {
                const float* const pairs = &s[depth * 16 + i / 2 * 8 + i % 2 * 2];
                p[depth][i] = pack_codes(pairs[0], pairs[1], pairs[4], pairs[5]);
            } else {
                const float* const pair = &s[depth * 8 + i * 2];
                p[depth][i] = pack<typename Config::Element>(staged_p(pair[0]), staged_p(pair[1]));
            }
        }
    }
}

}  // namespace tilescope::KERNEL_BUILD
