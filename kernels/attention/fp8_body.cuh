#pragma once

// The fp8 kernel: Q, K and V are e4m3 codes with a scale for each head, and stay codes up to the tensor
// cores. Each warp owns 16 query rows, whose scores, P and accumulator stay in registers; four lanes share a
// row.

#include <type_traits>

#include "dump/hook.h"
#include "kernels/attention/cuda_block.cuh"
#include "kernels/attention/fp8.h"
#include "kernels/attention/fp8_mma.cuh"
#include "kernels/attention/launch.cuh"
#include "kernels/attention/stage_rows.h"
#include "kernels/attention/steps.h"

namespace tilescope {

template <int block_m_, int block_n_, int head_dim_, bool p_in_fp8_>
struct Fp8Config {
    static constexpr int block_m = block_m_;
    static constexpr int block_n = block_n_;
    static constexpr int head_dim = head_dim_;
    static constexpr bool p_in_fp8 = p_in_fp8_;
    using P = std::conditional_t<p_in_fp8, E4m3, Half>;
    static constexpr int warp_rows = 16;
    static constexpr int lanes = 4;   ///< threads that share a query row
    static constexpr int tile = 8;    ///< columns of an accumulator
    static constexpr int depth = 32;  ///< of a product of codes
    static constexpr int threads = block_m / warp_rows * 32;
    /// Thread blocks of a multiprocessor, for which hooks must leave enough registers; 0: the compiler decides.
    static constexpr int resident_blocks = !KERNEL_BUILD::with_hooks ? 0 : head_dim == 64 ? 4 : 2;
    static constexpr int key_tiles = block_n / tile;
    static constexpr int feature_tiles = head_dim / tile;
    static constexpr int ld = head_dim + 16;  ///< padded: four_codes of eight rows lie in different banks
};

template <class Config>
struct Fp8Shared {
    alignas(16) E4m3 q[Config::block_m * Config::ld];
    alignas(16) E4m3 k[Config::block_n * Config::ld];
    alignas(16) E4m3 v[Config::block_n * Config::ld];
};

/// The running state of a row; the same in its four lanes.
struct Fp8Row {
    float m;
    float l;
    float rescale;  ///< exp(maximum before the last tile - maximum after it)
};

/// The calling thread's place: rows `row` and `row + 8` of the block, columns column and column + 1 of each
/// accumulator.
struct Fp8Lane {
    int lane;
    int first_row;  ///< of the warp
    int row;
    int column;
};

/// The calling thread's part of the running state of two rows.
template <class Config>
struct Fp8State {
    Fp8Row rows[2];
    typename Config::P p[Config::key_tiles][4];
    float acc[Config::feature_tiles][4];
};

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

KERNEL_FUNCTION Fp8Lane fp8_lane() {
    const int lane = int(threadIdx.x) % 32;
    const int first_row = int(threadIdx.x) / 32 * 16;
    return {lane, first_row, first_row + lane / 4, lane % 4 * 2};
}

/// What a product of codes is multiplied with to give the score.
KERNEL_FUNCTION float score_scale(const AttentionArgs& args, int batch, int head) {
    const int kv = head_kv(args, head);
    const int k_index = batch * args.heads_kv + (FAULT(descale_of_query_head) ? head : kv);
    const float q = args.descale_q[batch * args.heads + head];
    const float k = FAULT(descale_k_missing) ? 1.0f : args.descale_k[k_index];
    return (FAULT(descale_q_twice) ? q * q : q) * k * args.sm_scale;
}

/// What an element of the accumulator is multiplied with to give that of P V.
template <class Config>
KERNEL_FUNCTION float output_scale(const AttentionArgs& args, int batch, int head) {
    const float of_p = Config::p_in_fp8 ? 1.0f / fp8_p_scale : 1.0f;
    if (FAULT(descale_v_missing)) return of_p;
    return args.descale_v[batch * args.heads_kv + head_kv(args, head)] * of_p;
}

/// The warp's 16 rows of s = Q K^T, of codes.
template <class Config>
KERNEL_FUNCTION void multiply_qk(const Fp8Shared<Config>& shared, const Fp8Lane& at,
                                 float (&s)[Config::key_tiles][4]) {
    const int group = at.lane / 4;
    const E4m3* const q = shared.q + at.row * Config::ld + at.column * 2;
    const E4m3* const k = shared.k + group * Config::ld + at.column * 2;
    KERNEL_ROLLED
    for (int d = 0; d < Config::head_dim; d += Config::depth) {
        const bool whole = d + Config::depth <= score_depth<Config>();
        const std::uint32_t a[4] = {four_codes(q + d), four_codes(q + 8 * Config::ld + d),
                                    whole ? four_codes(q + d + 16) : 0,
                                    whole ? four_codes(q + 8 * Config::ld + d + 16) : 0};
        KERNEL_UNROLL
        for (int tile = 0; tile < Config::key_tiles; ++tile) {
            const E4m3* const row = k + tile * Config::tile * Config::ld + d;
            multiply_codes(s[tile], a, four_codes(row), four_codes(row + 16));
        }
    }
}

/// An element of P as the PV product reads it.
template <class Config>
KERNEL_FUNCTION typename Config::P cast_p(float p) {
    if constexpr (!Config::p_in_fp8) {
        return to_half(p);
    } else {
        if (FAULT(p_not_saturated)) return to_e4m3_without_saturation(p * 2.0f * fp8_p_scale);
        return to_e4m3(p * (FAULT(p_not_scaled) ? 1.0f : fp8_p_scale));
    }
}

/// Scores, maximum, P and row sum of the calling thread's columns of one of its rows, 0 or 1.
template <class Config>
KERNEL_FUNCTION void softmax_row(const CudaBlock& block, Fp8State<Config>& state,
                                 float (&s)[Config::key_tiles][4], int which, const AttentionArgs& args,
                                 const Fp8Lane& at, int kv_tile TILESCOPE_CALL_PARAM) {
    const int row = at.row + which * 8;
    const int query = block.q_block() * Config::block_m + row;
    Fp8Row& running = state.rows[which];
    CudaBlock::PerThread<float> tile_max = {-INFINITY};
    KERNEL_UNROLL
    for (int i = 0; i < Config::key_tiles * 2; ++i) {
        float& score = s[i / 2][which * 2 + i % 2];
        const int key = kv_tile * Config::block_n + i / 2 * Config::tile + at.column + i % 2;
        score = masked_score(args, score, query, key);
        tile_max.value = max_with(args, tile_max.value, score, key);
    }
    if (!FAULT(max_own_lane)) block.reduce_rows<Config::lanes>(tile_max, Larger());

    const float m_before = running.m;
    running.m = fmaxf(m_before, tile_max.value);
    running.rescale = expf(m_before - finite_max(running.m));
    if (at.column == 0) {
        TILESCOPE_VALUE(m, kv_tile, row, 0, running.m);
    }

    CudaBlock::PerThread<float> tile_sum = {0.0f};
    KERNEL_UNROLL
    for (int i = 0; i < Config::key_tiles * 2; ++i) {
        const int element = which * 2 + i % 2;
        const float probable = probability(s[i / 2][element], running.m);
        tile_sum.value += probable;
        if (p_is_filled(i / 2, s[i / 2][element]))
            state.p[i / 2][element] = cast_p<Config>(staged_p(probable));
    }
    block.reduce_rows<Config::lanes>(tile_sum, Plus());
    running.l = next_row_sum(running.l, running.rescale, tile_sum.value);
    if (at.column == 0) {
        TILESCOPE_VALUE(l, kv_tile, row, 0, running.l);
    }
}

/// The warp's 16 rows of acc += P V, of codes.
template <class Config>
KERNEL_FUNCTION void multiply_pv(const Fp8Shared<Config>& shared, const Fp8Lane& at,
                                 Fp8State<Config>& state) {
    const E4m3* const v = shared.v + at.column * Config::ld + at.lane / 4;
    KERNEL_UNROLL
    for (int key = 0; key < Config::block_n; key += Config::depth) {
        KERNEL_UNROLL
        for (int tile = 0; tile < Config::feature_tiles; ++tile) {
            std::uint32_t codes[4];
            KERNEL_UNROLL
            for (int i = 0; i < 4; ++i) {
                const int row = key + i * Config::tile;
                codes[i] = codes_below(v + row * Config::ld + tile * Config::tile, Config::ld);
            }
            multiply_p(state.acc[tile], state.p + key / Config::tile, codes);
        }
    }
}

/// Adds one KV tile, which lies in shared memory, to the running state.
template <class Config>
KERNEL_FUNCTION void fp8_tile(const CudaBlock& block, const Fp8Shared<Config>& shared,
                              Fp8State<Config>& state, const AttentionArgs& args, const Fp8Lane& at,
                              int kv_tile TILESCOPE_CALL_PARAM) {
    TILESCOPE_TILE(k, kv_tile, shared.k, Config::ld, threadIdx.x, Config::threads);
    TILESCOPE_TILE(v, kv_tile, shared.v, Config::ld, threadIdx.x, Config::threads);
    float s[Config::key_tiles][4] = {};
    multiply_qk<Config>(shared, at, s);
    KERNEL_UNROLL
    for (int which = 0; which < 2; ++which) {
        softmax_row<Config>(block, state, s, which, args, at, kv_tile TILESCOPE_BLOCK_ARG);
    }
    TILESCOPE_FRAGMENT(s, kv_tile, s, MmaAccumulator{at.first_row, 0, at.lane});
    TILESCOPE_FRAGMENT(p, kv_tile, state.p, MmaAccumulator{at.first_row, 0, at.lane});
    KERNEL_UNROLL
    for (int i = 0; i < Config::feature_tiles * 4; ++i) {
        state.acc[i / 4][i % 4] = rescaled(state.acc[i / 4][i % 4], state.rows[i % 4 / 2].rescale);
    }
    multiply_pv<Config>(shared, at, state);
    KERNEL_UNROLL
    for (int i = 0; i < Config::feature_tiles * 4; ++i) {
        state.acc[i / 4][i % 4] = kept(state.acc[i / 4][i % 4]);
    }
    TILESCOPE_FRAGMENT(acc, kv_tile, state.acc, MmaAccumulator{at.first_row, 0, at.lane});
}

/// Stores o, but for features from `covered` on, and lse.
template <class Config, int covered>
KERNEL_FUNCTION void fp8_outputs(const CudaBlock& block, const Fp8State<Config>& state,
                                 const AttentionArgs& args, const Fp8Lane& at TILESCOPE_CALL_PARAM) {
    const float scale = output_scale<Config>(args, block.batch(), block.head());
    Half o[covered / Config::tile][4];
    KERNEL_UNROLL
    for (int i = 0; i < covered / 2; ++i) {
        o[i / 4][i % 4] = normalised(state.acc[i / 4][i % 4] * scale, state.rows[i % 4 / 2].l);
    }
    KERNEL_UNROLL
    for (int which = 0; which < 2; ++which) {
        const int row = at.row + which * 8;
        const int query = block.q_block() * Config::block_m + row;
        if (query >= args.seqlen_q) continue;
        const std::int64_t output =
            (std::int64_t(block.batch()) * args.heads + block.head()) * args.seqlen_q + query;
        Half* const to = static_cast<Half*>(args.o) + output * Config::head_dim + at.column;
        KERNEL_UNROLL
        for (int tile = 0; tile < covered / Config::tile; ++tile) {
            to[tile * Config::tile] = o[tile][which * 2];
            to[tile * Config::tile + 1] = o[tile][which * 2 + 1];
        }
        if (at.column == 0) {
            const float lse = log_sum_exp(state.rows[which].m, state.rows[which].l);
            args.lse[output] = lse;
            TILESCOPE_VALUE(lse, 0, row, 0, lse);
        }
    }
    TILESCOPE_FRAGMENT(o, 0, o, MmaAccumulator{at.first_row, 0, at.lane});
}

/// Attention of one block of queries.
template <class Config>
KERNEL_FUNCTION void fp8_block(const CudaBlock& block, Fp8Shared<Config>& shared,
                               const AttentionArgs& args TILESCOPE_CALL_PARAM) {
    const std::int64_t q_matrix =
        (std::int64_t(block.batch()) * args.heads + block.head()) * args.seqlen_q * Config::head_dim;
    const std::int64_t kv_matrix =
        (std::int64_t(block.batch()) * args.heads_kv + head_kv(args, block.head())) * args.seqlen_kv *
        Config::head_dim;
    stage_rows<Config>(block, shared.q, static_cast<const E4m3*>(args.q) + q_matrix,
                       q_rows<Config>(args, block.q_block()), Config::block_m);
    block.commit();
    const Fp8Lane at = fp8_lane();
    Fp8State<Config> state = {};
    state.rows[0] = state.rows[1] = {first_max(), 0.0f, 1.0f};
    AttentionArgs scaled = args;
    scaled.sm_scale = score_scale(args, block.batch(), block.head());
    block.wait<0>();
    block.sync();
    TILESCOPE_TILE(q, 0, shared.q, Config::ld, threadIdx.x, Config::threads);

    const int tiles = kv_tile_count<Config>(args, block.q_block());
    for (int kv_tile = 0; kv_tile < tiles; ++kv_tile) {
        stage_rows<Config>(block, shared.k, static_cast<const E4m3*>(args.k) + kv_matrix,
                           k_rows<Config>(args, kv_tile), Config::block_n);
        stage_rows<Config>(block, shared.v, static_cast<const E4m3*>(args.v) + kv_matrix,
                           v_rows<Config>(args, kv_tile), Config::block_n);
        block.commit();
        block.wait<0>();
        block.sync();
        fp8_tile<Config>(block, shared, state, scaled, at, kv_tile TILESCOPE_BLOCK_ARG);
        block.sync();
    }
    if (FAULT(columns_uncovered)) {
        fp8_outputs<Config, Config::head_dim - uncovered>(block, state, args, at TILESCOPE_BLOCK_ARG);
    } else {
        fp8_outputs<Config, Config::head_dim>(block, state, args, at TILESCOPE_BLOCK_ARG);
    }
}

template <class Config, bool record>
__global__ void __launch_bounds__(Config::threads, Config::resident_blocks)
    fp8_kernel(const AttentionArgs args TILESCOPE_SINK_PARAM(sink)) {
    static_assert(sizeof(Fp8Shared<Config>) <= shared_memory_budget);
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<Fp8Shared<Config>*>(shared_bytes);
    const CudaBlock block;
    TILESCOPE_BLOCK_CALL(record, sink, block.batch(), block.head(), block.q_block(),
                         fp8_block<Config>(block, shared, args TILESCOPE_BLOCK_ARG));
}

struct Fp8Kernel {
    template <KernelConfig config>
    using ConfigOf = Fp8Config<config.block_m, config.block_n, config.head_dim, config.p_in_fp8>;

    template <class Config>
    static auto function() {
        return fp8_kernel<Config, with_hooks>;
    }

    template <class Config>
    static Launch launch(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        auto* const kernel =
            TILESCOPE_RECORDS(sink) ? fp8_kernel<Config, with_hooks> : fp8_kernel<Config, without_hooks>;
        return launch_attention<Config>(kernel, "fp8", sizeof(Fp8Shared<Config>),
                                        args TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace tilescope::KERNEL_BUILD
