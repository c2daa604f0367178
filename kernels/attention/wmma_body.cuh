#pragma once

// The WMMA kernel: both products on tensor cores. Each warp owns 16 query rows; scores, P and the accumulator
// pass through shared memory, because the layout of a fragment is not specified. Two lanes share a row.

#include <mma.h>

#include "dump/hook.h"
#include "kernels/attention/cuda_block.cuh"
#include "kernels/attention/launch.cuh"
#include "kernels/attention/stage_rows.h"
#include "kernels/attention/steps.h"

// Numbers as in kernels/run/named_tiles.cpp.
TILESCOPE_NAMED_TILE(rescale, 0);

namespace tilescope {

template <int block_m_, int block_n_, int head_dim_>
struct WmmaConfig {
    static constexpr int fragment = 16;  ///< rows, columns and depth of one tensor core product
    static constexpr int block_m = block_m_;
    static constexpr int block_n = block_n_;
    static constexpr int head_dim = head_dim_;
    static constexpr int lanes = 2;                    ///< threads that share a query row
    static constexpr int threads = block_m * lanes;    ///< a warp for each 16 rows
    static constexpr int columns = block_n / lanes;    ///< keys of a thread: lane, lane + 2, ...
    static constexpr int features = head_dim / lanes;  ///< features of a thread: lane, lane + 2, ...
    static constexpr int ld = head_dim + 8;            ///< padded, so that neighbouring rows of every
    static constexpr int ld_s = block_n + 4;           ///< array start in different banks
    static constexpr int ld_p = block_n + 8;
    static constexpr int ld_acc = head_dim + 4;
};

template <class Config>
struct WmmaShared {
    alignas(32) Half q[Config::block_m * Config::ld];
    alignas(32) Half k[Config::block_n * Config::ld];
    alignas(32) Half v[Config::block_n * Config::ld];
    alignas(32) Half p[Config::block_m * Config::ld_p];
    alignas(32) float s[Config::block_m * Config::ld_s];
    alignas(32) float acc[Config::block_m * Config::ld_acc];
};

/// The running state of a row; the same in both of its lanes.
struct WmmaRow {
    float m;
    float l;
    float rescale;  ///< exp(maximum before the last tile - maximum after it)
};

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

using FragmentA = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major>;
template <class Layout>
using FragmentB = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, Layout>;
using FragmentC = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;

/// Where P lies.
template <class Config>
KERNEL_FUNCTION Half* place_of_p(WmmaShared<Config>& shared) {
    static_assert(!with_faults || sizeof(shared.k) >= sizeof(shared.p));
    return FAULT(qk_barrier_missing) ? shared.k : shared.p;
}

/// A 16 x 16 corner of Q.
template <class Config>
KERNEL_FUNCTION void load_q(FragmentA& fragment, const Half* corner) {
    if (FAULT(fragment_per_thread)) {
        const int first = int(threadIdx.x) % 32 * 8;
        for (int i = 0; i < fragment.num_elements; ++i) {
            const int place = first + i % 8;
            fragment.x[i] = corner[place / Config::fragment * Config::ld + place % Config::fragment];
        }
    } else {
        nvcuda::wmma::load_matrix_sync(fragment, corner, Config::ld);
    }
}

/// s += a corner of Q times one of K.
template <class LayoutK>
KERNEL_FUNCTION void multiply_corner(FragmentC& s, const FragmentA& q, const Half* corner, int ld) {
    FragmentB<LayoutK> k;
    nvcuda::wmma::load_matrix_sync(k, corner, ld);
    nvcuda::wmma::mma_sync(s, q, k, s);
}

/// The warp's 16 rows of s = Q K^T, not scaled.
template <class Config>
KERNEL_FUNCTION void multiply_qk(WmmaShared<Config>& shared, int first_row) {
    const int ld_k = FAULT(wrong_ldm) ? Config::head_dim : Config::ld;
    for (int column = 0; column < Config::block_n; column += Config::fragment) {
        FragmentC s;
        nvcuda::wmma::fill_fragment(s, 0.0f);
        if (!FAULT(first_fragment_only) || column == 0) {
            for (int d = 0; d < score_depth<Config>(); d += Config::fragment) {
                FragmentA q;
                load_q<Config>(q, shared.q + first_row * Config::ld + d);
                const Half* const corner = shared.k + column * ld_k + d;
                if (FAULT(k_row_major)) {
                    multiply_corner<nvcuda::wmma::row_major>(s, q, corner, ld_k);
                } else {
                    multiply_corner<nvcuda::wmma::col_major>(s, q, corner, ld_k);
                }
            }
        }
        nvcuda::wmma::store_matrix_sync(shared.s + first_row * Config::ld_s + column, s, Config::ld_s,
                                        nvcuda::wmma::mem_row_major);
    }
}

/// 16 rows of acc += P V.
template <class Config>
KERNEL_FUNCTION void multiply_pv(WmmaShared<Config>& shared, int first_row) {
    const Half* const p_rows = place_of_p<Config>(shared) + first_row * Config::ld_p;
    KERNEL_ROLLED
    for (int feature = 0; feature < Config::head_dim; feature += Config::fragment) {
        float* const corner = shared.acc + first_row * Config::ld_acc + feature;
        FragmentC acc;
        nvcuda::wmma::load_matrix_sync(acc, corner, Config::ld_acc, nvcuda::wmma::mem_row_major);
        for (int column = 0; column < Config::block_n; column += Config::fragment) {
            FragmentA p;
            FragmentB<nvcuda::wmma::row_major> v;
            nvcuda::wmma::load_matrix_sync(p, p_rows + column, Config::ld_p);
            nvcuda::wmma::load_matrix_sync(v, shared.v + column * Config::ld + feature, Config::ld);
            nvcuda::wmma::mma_sync(acc, p, v, acc);
        }
        nvcuda::wmma::store_matrix_sync(corner, acc, Config::ld_acc, nvcuda::wmma::mem_row_major);
    }
}

/// The first of the 16 rows whose P V a warp adds up; `first_row` is that of its softmax.
template <class Config>
KERNEL_FUNCTION int rows_to_accumulate(int first_row) {
    if (FAULT(softmax_barrier_missing)) {
        return (first_row + Config::fragment) % Config::block_m;
    } else {
        return first_row;
    }
}

/// Scores, maximum, P and row sum of the calling thread's columns of one KV tile.
template <class Config>
KERNEL_FUNCTION void softmax_tile(const CudaBlock& block, WmmaShared<Config>& shared, WmmaRow& state,
                                  const AttentionArgs& args, int kv_tile TILESCOPE_BLOCK_PARAM) {
    const int row = int(threadIdx.x) / Config::lanes;
    const int lane = int(threadIdx.x) % Config::lanes;
    const int query = block.q_block() * Config::block_m + row;
    float* const s = shared.s + row * Config::ld_s;
    Half* const p = place_of_p<Config>(shared) + row * Config::ld_p;

    CudaBlock::PerThread<float> tile_max = {-INFINITY};
    KERNEL_ROLLED
    for (int column = lane; column < Config::block_n; column += Config::lanes) {
        const int key = masked_key<Config>(kv_tile, column);
        const float score = masked_score(args, s[column], query, key);
        s[column] = score;
        tile_max.value = max_with(args, tile_max.value, score, key);
    }
    reduce_max<Config>(block, tile_max);

    const float m_before = state.m;
    state.m = fmaxf(m_before, tile_max.value);
    state.rescale = expf(m_before - finite_max(state.m));
    if (lane == 0) {
        TILESCOPE_VALUE(m, kv_tile, row, 0, state.m);
        TILESCOPE_VALUE(rescale, kv_tile, row, 0, state.rescale);
    }

    CudaBlock::PerThread<float> tile_sum = {0.0f};
    KERNEL_ROLLED
    for (int step = 0; step < Config::columns; ++step) {
        const int column = lane + step * Config::lanes;
        const float probable = probability(s[column], state.m);
        tile_sum.value += probable;
        if (p_is_filled(step, s[column])) p[column] = to_half(staged_p(probable));
    }
    block.reduce_rows<Config::lanes>(tile_sum, Plus());
    state.l = next_row_sum(state.l, state.rescale, tile_sum.value);
    if (lane == 0) {
        TILESCOPE_VALUE(l, kv_tile, row, 0, state.l);
    }
}

/// Adds one KV tile, which lies in shared memory, to the running state.
template <class Config>
KERNEL_FUNCTION void wmma_tile(const CudaBlock& block, WmmaShared<Config>& shared, WmmaRow& state,
                               const AttentionArgs& args, int kv_tile TILESCOPE_BLOCK_PARAM) {
    const int thread = int(threadIdx.x);
    const int row = thread / Config::lanes;
    const int lane = thread % Config::lanes;
    const int first_row = row / Config::fragment * Config::fragment;
    float* const acc = shared.acc + row * Config::ld_acc;
    if (FAULT(qk_barrier_missing)) block.delay_last_warp();
    TILESCOPE_TILE(k, kv_tile, shared.k, Config::ld, thread, Config::threads);
    TILESCOPE_TILE(v, kv_tile, shared.v, Config::ld, thread, Config::threads);

    multiply_qk<Config>(shared, first_row);
    __syncwarp();
    if (FAULT(softmax_barrier_missing)) block.delay_last_warp();
    softmax_tile<Config>(block, shared, state, args, kv_tile TILESCOPE_BLOCK_ARG);
    KERNEL_ROLLED
    for (int feature = lane; feature < Config::head_dim; feature += Config::lanes) {
        acc[feature] = rescaled(acc[feature], state.rescale);
    }
    __syncwarp();
    TILESCOPE_ROWS(s, kv_tile, first_row, Config::fragment, shared.s + first_row * Config::ld_s, Config::ld_s,
                   thread % 32, 32);
    TILESCOPE_ROWS(p, kv_tile, first_row, Config::fragment,
                   (place_of_p<Config>(shared) + first_row * Config::ld_p), Config::ld_p, thread % 32, 32);
    multiply_pv<Config>(shared, rows_to_accumulate<Config>(first_row));
    __syncwarp();
    KERNEL_ROLLED
    for (int feature = lane; feature < Config::head_dim; feature += Config::lanes) {
        acc[feature] = kept(acc[feature]);
    }
}

template <class Config>
KERNEL_FUNCTION void wmma_outputs(const CudaBlock& block, const WmmaShared<Config>& shared,
                                  const WmmaRow& state, const AttentionArgs& args TILESCOPE_BLOCK_PARAM) {
    const int row = int(threadIdx.x) / Config::lanes;
    const int lane = int(threadIdx.x) % Config::lanes;
    const int query = block.q_block() * Config::block_m + row;
    if (query >= args.seqlen_q || !row_is_covered<Config>(row)) return;

    const std::int64_t output =
        (std::int64_t(block.batch()) * args.heads + block.head()) * args.seqlen_q + query;
    Half* const o = static_cast<Half*>(args.o) + output * Config::head_dim;
    KERNEL_ROLLED
    for (int feature = lane; feature < covered_features<Config>(); feature += Config::lanes) {
        const Half value = normalised(shared.acc[row * Config::ld_acc + feature], state.l);
        o[feature] = value;
    }
    if (FAULT(columns_uncovered)) {
        TILESCOPE_FRAGMENT(o, 0,
                           strided<Config::features - uncovered / Config::lanes>(o + lane, Config::lanes),
                           Columns{row, lane, Config::lanes});
    } else {
        TILESCOPE_FRAGMENT(o, 0, strided<Config::features>(o + lane, Config::lanes),
                           Columns{row, lane, Config::lanes});
    }
    if (lane == 0) {
        const float lse = log_sum_exp(state.m, state.l);
        args.lse[output] = lse;
        TILESCOPE_VALUE(lse, 0, row, 0, lse);
    }
}

/// Attention of one block of queries.
template <class Config>
__global__ void __launch_bounds__(Config::threads, resident_blocks<WmmaShared<Config>>)
    wmma_kernel(const AttentionArgs args TILESCOPE_SINK_PARAM(sink)) {
    static_assert(sizeof(WmmaShared<Config>) <= shared_memory_budget);
    extern __shared__ __align__(32) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<WmmaShared<Config>*>(shared_bytes);
    CudaBlock block;
    TILESCOPE_BLOCK(sink, block.batch(), block.head(), block.q_block());

    const RowLayout q = q_layout<Config>(args, block.batch(), block.head());
    const std::int64_t kv_matrix =
        (std::int64_t(block.batch()) * args.heads_kv + head_kv(args, block.head())) * args.seqlen_kv *
        Config::head_dim;
    stage_rows<Config>(block, shared.q, static_cast<const Half*>(args.q) + q.first,
                       q_rows<Config>(args, block.q_block()), Config::block_m, q.stride);
    block.commit();
    for (int i = int(threadIdx.x); i < Config::block_m * Config::ld_acc; i += Config::threads) {
        shared.acc[i] = 0.0f;
    }
    WmmaRow state = {first_max(), 0.0f, 1.0f};
    block.wait<0>();
    block.sync();
    TILESCOPE_TILE(q, 0, shared.q, Config::ld, threadIdx.x, Config::threads);

    const int tiles = kv_tile_count<Config>(args, block.q_block());
    for (int kv_tile = 0; kv_tile < tiles; ++kv_tile) {
        stage_rows<Config>(block, shared.k, static_cast<const Half*>(args.k) + kv_matrix,
                           k_rows<Config>(args, kv_tile), Config::block_n);
        stage_rows<Config>(block, shared.v, static_cast<const Half*>(args.v) + kv_matrix,
                           v_rows<Config>(args, kv_tile), Config::block_n);
        block.commit();
        block.wait<0>();
        block.sync();
        wmma_tile<Config>(block, shared, state, args, kv_tile TILESCOPE_BLOCK_ARG);
        block.sync();
        TILESCOPE_TILE(acc, kv_tile, shared.acc, Config::ld_acc, threadIdx.x, Config::threads);
    }
    wmma_outputs<Config>(block, shared, state, args TILESCOPE_BLOCK_ARG);
}

struct WmmaKernel {
    template <KernelConfig config>
    using ConfigOf = WmmaConfig<config.block_m, config.block_n, config.head_dim>;

    template <class Config>
    static auto function() {
        return wmma_kernel<Config>;
    }

    template <class Config>
    static Launch launch(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        return launch_attention<Config>(function<Config>(), "wmma", sizeof(WmmaShared<Config>),
                                        args TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace tilescope::KERNEL_BUILD
