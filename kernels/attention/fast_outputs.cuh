#pragma once

// The end of the fast kernel: row sums are added up over lanes, splits are merged, o and lse are stored.

#include "dump/hook.h"
#include "kernels/attention/fast_config.cuh"
#ifdef DEBUG_DUMP
#include "kernels/attention/fast_hooks.cuh"
#endif

namespace tilescope {

/// Maximum and sum of a row.
struct RowState {
    float m;
    float l;
};

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

/// The row sums of all four lanes of a row, in each of them.
template <class Config>
KERNEL_FUNCTION void add_lanes(FastRows<Config>& rows) {
    KERNEL_UNROLL
    for (auto& of_tile : rows.l) {
        KERNEL_UNROLL
        for (float& l : of_tile) {
            l += __shfl_xor_sync(0xffffffffu, l, 1);
            l += __shfl_xor_sync(0xffffffffu, l, 2);
        }
    }
}

/// What the accumulator is multiplied with; 0 in a row that saw no key.
KERNEL_FUNCTION float normaliser(float row_sum) {
    if (FAULT(not_normalised)) return 1.0f;
    const float inverse = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;
    return FAULT(double_normalised) ? inverse * inverse : inverse;
}

/// A row of o and lse in global memory, as a lane stores it.
template <class Config>
struct FastOutput {
    std::int64_t row;  ///< among all rows of all heads
    bool inside;       ///< whether there is such a row
    typename Config::Element* o;

    KERNEL_FUNCTION FastOutput(const AttentionArgs& args, std::int64_t head, int query, int lane)
        : row(head * args.seqlen_q + query),
          inside(query < args.seqlen_q),
          o(static_cast<typename Config::Element*>(args.o) + row * Config::head_dim + lane % 4 * 2) {}

    /// Two neighbouring elements of the tile of 8 features.
    KERNEL_FUNCTION void store(int feature_tile, std::uint32_t pair) const {
        if (inside) *reinterpret_cast<std::uint32_t*>(o + feature_tile * 8) = pair;
    }
};

template <class Config>
KERNEL_FUNCTION void store_lse(const AttentionArgs& args, const FastOutput<Config>& output, RowState state,
                               int row, int lane TILESCOPE_CALL_PARAM) {
    if (lane % 4 != 0 || !output.inside) return;
    const float lse = log_sum_exp(state.m * args.sm_scale, state.l);
    args.lse[output.row] = lse;
    TILESCOPE_VALUE(lse, 0, row, 0, lse);
}

/// Stores the warp's rows, but for features from `covered` on. `head` counts those of all batch entries, `first_query` is
/// the block's.
template <class Config, int covered>
KERNEL_FUNCTION void store_rows(const AttentionArgs& args, const FastRows<Config>& rows, std::int64_t head,
                                int first_query, const FastThread& thread TILESCOPE_CALL_PARAM) {
    constexpr int tiles = covered / 8;
    KERNEL_UNROLL
    for (int row = 0; row < Config::row_tiles; ++row) {
        std::uint32_t pairs[tiles * 2];
        const int first_row = thread.first_row + row * 16;
        KERNEL_UNROLL
        for (int half = 0; half < 2; ++half) {
            const int lane_row = first_row + half * 8 + thread.lane / 4;
            const FastOutput<Config> output(args, head, first_query + lane_row, thread.lane);
            const float factor = normaliser(rows.l[row][half]);
            KERNEL_UNROLL
            for (int tile = 0; tile < tiles; ++tile) {
                const float* const acc = &rows.acc[row][tile][half * 2];
                pairs[tile * 2 + half] = pack<typename Config::Element>(acc[0] * factor, acc[1] * factor);
                output.store(tile, pairs[tile * 2 + half]);
            }
            store_lse<Config>(args, output, {rows.m[row][half], rows.l[row][half]}, lane_row,
                              thread.lane TILESCOPE_BLOCK_ARG);
        }
        TILESCOPE_FRAGMENT(o, 0, pairs_of<Config>(pairs), MmaAccumulator{first_row, 0, thread.lane});
    }
}

/// What each split leaves in shared memory for the others: accumulators by row tile, tile of features and
/// lane, and the state of each row.
template <class Config>
struct FastParts {
    float4* acc;
    RowState* states;

    KERNEL_FUNCTION explicit FastParts(unsigned char* shared)
        : acc(reinterpret_cast<float4*>(shared)),
          states(reinterpret_cast<RowState*>(shared + Config::splits * Config::block_m * Config::head_dim *
                                                          int(sizeof(float)))) {}
    KERNEL_FUNCTION float4& part(int split, int first_row, int feature_tile, int lane) const {
        return acc[((split * Config::block_m + first_row) / 16 * Config::feature_tiles + feature_tile) * 32 +
                   lane];
    }
    KERNEL_FUNCTION RowState& state(int split, int row) const {
        return states[split * Config::block_m + row];
    }
};

template <class Config>
KERNEL_FUNCTION void leave_parts(const FastParts<Config>& parts, const FastRows<Config>& rows,
                                 const FastThread& thread) {
    KERNEL_UNROLL
    for (int row = 0; row < Config::row_tiles; ++row) {
        const int first_row = thread.first_row + row * 16;
        KERNEL_UNROLL
        for (int tile = 0; tile < Config::feature_tiles; ++tile) {
            const float(&acc)[4] = rows.acc[row][tile];
            parts.part(thread.split, first_row, tile, thread.lane) =
                make_float4(acc[0], acc[1], acc[2], acc[3]);
        }
        if (thread.lane % 4 != 0) continue;
        KERNEL_UNROLL
        for (int half = 0; half < 2; ++half) {
            parts.state(thread.split, first_row + half * 8 + thread.lane / 4) = {rows.m[row][half],
                                                                                 rows.l[row][half]};
        }
    }
}

/// The state of a row over all splits, and the weight of each of them.
template <class Config>
KERNEL_FUNCTION RowState merged_state(const FastParts<Config>& parts, int row, float scale,
                                      float (&weights)[Config::splits]) {
    RowState merged = {-INFINITY, 0.0f};
    KERNEL_UNROLL
    for (int split = 0; split < Config::splits; ++split)
        merged.m = fmaxf(merged.m, parts.state(split, row).m);
    KERNEL_UNROLL
    for (int split = 0; split < Config::splits; ++split) {
        const RowState part = parts.state(split, row);
        weights[split] = power_of_two((part.m - finite_max(merged.m)) * scale);
        merged.l = fmaf(part.l, weights[split], merged.l);
    }
    return merged;
}

/// Merges the splits and stores the warp's rows: each split takes a part of the features.
template <class Config>
KERNEL_FUNCTION void store_merged(const AttentionArgs& args, const FastParts<Config>& parts, float scale,
                                  std::int64_t head, int first_query,
                                  const FastThread& thread TILESCOPE_CALL_PARAM) {
    constexpr int tiles = Config::feature_tiles / Config::splits;
    const int first_tile = thread.split * tiles;
    KERNEL_UNROLL
    for (int row = 0; row < Config::row_tiles; ++row) {
        const int first_row = thread.first_row + row * 16;
        const int lane_row = first_row + thread.lane / 4;
        const FastOutput<Config> outputs[2] = {{args, head, first_query + lane_row, thread.lane},
                                               {args, head, first_query + lane_row + 8, thread.lane}};
        float weights[2][Config::splits];
        float factors[2];
        KERNEL_UNROLL
        for (int half = 0; half < 2; ++half) {
            const RowState state = merged_state(parts, lane_row + half * 8, scale, weights[half]);
            factors[half] = normaliser(state.l);
            if (thread.split != 0) continue;
            store_lse<Config>(args, outputs[half], state, lane_row + half * 8,
                              thread.lane TILESCOPE_BLOCK_ARG);
        }
        std::uint32_t pairs[tiles * 2];
        KERNEL_UNROLL
        for (int tile = 0; tile < tiles; ++tile) {
            float acc[4] = {};
            KERNEL_UNROLL
            for (int split = 0; split < Config::splits; ++split) {
                const float4 part = parts.part(split, first_row, first_tile + tile, thread.lane);
                acc[0] = fmaf(part.x, weights[0][split], acc[0]);
                acc[1] = fmaf(part.y, weights[0][split], acc[1]);
                acc[2] = fmaf(part.z, weights[1][split], acc[2]);
                acc[3] = fmaf(part.w, weights[1][split], acc[3]);
            }
            KERNEL_UNROLL
            for (int half = 0; half < 2; ++half) {
                const float* const pair = &acc[half * 2];
                pairs[tile * 2 + half] =
                    pack<typename Config::Element>(pair[0] * factors[half], pair[1] * factors[half]);
                outputs[half].store(first_tile + tile, pairs[tile * 2 + half]);
            }
        }
        TILESCOPE_FRAGMENT(o, 0, pairs_of<Config>(pairs),
                           MmaAccumulator{first_row, first_tile * 8, thread.lane});
    }
}

}  // namespace tilescope::KERNEL_BUILD
