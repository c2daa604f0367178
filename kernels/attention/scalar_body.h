#pragma once

// The scalar kernel: no tensor cores, eight threads to a query row. One text for a CUDA thread block
// (CudaBlock) and for a host thread that plays one (CpuBlock).

#include <type_traits>

#include "dump/hook.h"
#include "kernels/attention/guards.h"
#include "kernels/attention/scalar_products.h"
#include "kernels/attention/stage_rows.h"
#include "kernels/attention/steps.h"

// `rescale` is named tile 0 of the problem: bundled_tiles() in kernels/run/named_tiles.cpp lists it first.
TILESCOPE_NAMED_TILE(rescale, 0);

namespace tilescope {

template <int block_m_, int block_n_, int stages_, int head_dim_>
struct ScalarConfig {
    using Guards = NoGuards;
    using Products = TileProducts;
    static constexpr const char* kernel = "scalar";
    static constexpr int block_m = block_m_;
    static constexpr int block_n = block_n_;
    static constexpr int stages = stages_;
    static constexpr int head_dim = head_dim_;
    static constexpr int lanes = 8;  ///< threads that share a query row
    static constexpr int threads = block_m * lanes;
    static constexpr int columns = block_n / lanes;    ///< keys of a thread: lane, lane + 8, ...
    static constexpr int features = head_dim / lanes;  ///< features of a thread: lane, lane + 8, ...
    static constexpr int ld = head_dim + 8;  ///< the padding puts neighbouring rows into different banks
    static constexpr int ld_p = block_n + 8;
};

/// With guards in its softmax.
template <int block_m, int block_n, int stages, int head_dim>
struct StableConfig : ScalarConfig<block_m, block_n, stages, head_dim> {
    using Guards = StableGuards;
    static constexpr const char* kernel = "stable";
};

/// On products that cuBLAS has stored.
template <int block_m, int block_n, int stages, int head_dim>
struct CublasConfig : ScalarConfig<block_m, block_n, stages, head_dim> {
    using Products = StoredProducts;
    static constexpr const char* kernel = "cublas";
};

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

/// What the threads of a block keep from KV tile to KV tile; m and l are the same in all lanes of a row.
template <class Config, class Block>
struct ScalarState {
    typename Block::template PerThread<float> m;
    typename Block::template PerThread<float> l;
    typename Block::template PerThread<Registers<Config::features>> acc;
};

/// What they keep within one KV tile.
template <class Config, class Block>
struct ScalarTile {
    typename Block::template PerThread<Registers<Config::columns>> s;
    typename Block::template PerThread<float> max;
    typename Block::template PerThread<float> sum;      ///< of P
    typename Block::template PerThread<float> rescale;  ///< exp(running maximum before - after)
};

template <class Config, class Block>
KERNEL_FUNCTION void stage_kv(Block& block, ScalarShared<Config>& shared, const AttentionArgs& args,
                              int kv_tile, int tiles) {
    if (kv_tile < tiles) {
        const int head_of_kv = head_kv(args, block.head());
        const std::int64_t matrix =
            (std::int64_t(block.batch()) * args.heads_kv + head_of_kv) * args.seqlen_kv * Config::head_dim;
        stage_k<Config>(typename Config::Products(), block, shared, args, matrix, kv_tile);
        stage_rows<Config>(block, shared.v[kv_tile % Config::stages],
                           static_cast<const Half*>(args.v) + matrix, v_rows<Config>(args, kv_tile),
                           Config::block_n);
    }
    block.commit();
}

/// Where P of a KV tile lies.
template <class Config>
KERNEL_FUNCTION float* place_of_p(ScalarShared<Config>& shared, int kv_tile) {
    static_assert(!with_faults || sizeof(shared.v[0]) >= sizeof(shared.p));
    if (FAULT(p_over_v)) return reinterpret_cast<float*>(shared.v[kv_tile % Config::stages]);
    // Not every kernel has K there.
    if constexpr (std::is_same_v<typename Config::Products, TileProducts>) {
        static_assert(!with_faults || sizeof(shared.k[0]) >= sizeof(shared.p));
        if (FAULT(qk_barrier_missing)) return reinterpret_cast<float*>(shared.k[kv_tile % Config::stages]);
    }
    return shared.p;
}

/// Scores, running maximum and P of a KV tile that has arrived in shared memory.
template <class Config, class Block>
KERNEL_FUNCTION void softmax_tile(Block& block, ScalarShared<Config>& shared,
                                  ScalarState<Config, Block>& state, ScalarTile<Config, Block>& tile,
                                  const AttentionArgs& args, int kv_tile TILESCOPE_BLOCK_PARAM) {
    float* const p_tile = place_of_p<Config>(shared, kv_tile);
    if (FAULT(qk_barrier_missing)) block.delay_last_warp();

    block.each_thread([&](int thread) {
        const int row = thread / Config::lanes;
        const int lane = thread % Config::lanes;
        const int query = block.q_block() * Config::block_m + row;
        auto& s = tile.s[thread];
        products_of<Config>(typename Config::Products(), block, shared, args, kv_tile, thread,
                            s TILESCOPE_BLOCK_ARG);

        tile.max[thread] = -INFINITY;
        KERNEL_UNROLL
        for (int j = 0; j < Config::columns; ++j) {
            const int column = lane + j * Config::lanes;
            const int key = masked_key<Config>(kv_tile, column);
            s[j] = masked_score<typename Config::Guards>(args, s[j], query, key);
            tile.max[thread] = max_with(args, tile.max[thread], s[j], key);
        }
        TILESCOPE_FRAGMENT(s, kv_tile, s.values, Columns{row, lane, Config::lanes});
    });
    reduce_max<Config>(block, tile.max);

    block.each_thread([&](int thread) {
        const int row = thread / Config::lanes;
        const int lane = thread % Config::lanes;
        const float m_before = state.m[thread];
        const float m = fmaxf(m_before, tile.max[thread]);
        state.m[thread] = m;
        tile.rescale[thread] = expf(m_before - finite_max(m));
        if (lane == 0) {
            TILESCOPE_VALUE(m, kv_tile, row, 0, m);
            TILESCOPE_VALUE(rescale, kv_tile, row, 0, tile.rescale[thread]);
        }

        tile.sum[thread] = 0.0f;
        KERNEL_UNROLL
        for (int j = 0; j < Config::columns; ++j) {
            const float p = probability<typename Config::Guards>(tile.s[thread][j], m);
            tile.sum[thread] += p;
            if (p_is_filled(j, tile.s[thread][j])) {
                tile.s[thread][j] = staged_p(p);
                p_tile[row * Config::ld_p + lane + j * Config::lanes] = tile.s[thread][j];
            }
        }
        TILESCOPE_FRAGMENT(p, kv_tile, tile.s[thread].values, [&](int j) {
            return p_is_filled(j, tile.s[thread][j]) ? Columns{row, lane, Config::lanes}(j) : nowhere();
        });
    });
    block.template reduce_rows<Config::lanes>(tile.sum, Plus());
}

/// Adds P and P V of a KV tile to the running sum and the accumulator.
template <class Config, class Block>
KERNEL_FUNCTION void accumulate_tile(Block& block, ScalarShared<Config>& shared,
                                     ScalarState<Config, Block>& state, ScalarTile<Config, Block>& tile,
                                     int kv_tile TILESCOPE_BLOCK_PARAM) {
    const Half* const v = shared.v[kv_tile % Config::stages];
    const float* const p_tile = place_of_p<Config>(shared, kv_tile);
    if (FAULT(load_before_barrier)) block.delay_last_warp();

    block.each_thread([&](int thread) {
        TILESCOPE_TILE(v, kv_tile, v, Config::ld, thread, Config::threads);
        const int row = thread / Config::lanes;
        const int lane = thread % Config::lanes;
        const float rescale = tile.rescale[thread];
        const float l = next_row_sum(state.l[thread], rescale, tile.sum[thread]);
        state.l[thread] = l;
        if (lane == 0) {
            TILESCOPE_VALUE(l, kv_tile, row, 0, l);
        }

        auto& acc = state.acc[thread];
        KERNEL_UNROLL
        for (int j = 0; j < Config::features; ++j) acc[j] = rescaled(acc[j], rescale);
        KERNEL_UNROLL_TWO
        for (int column = 0; column < Config::block_n; ++column) {
            const float p = p_tile[row * Config::ld_p + column];
            KERNEL_UNROLL
            for (int j = 0; j < Config::features; ++j) {
                acc[j] = fmaf(p, to_float(v[column * Config::ld + lane + j * Config::lanes]), acc[j]);
            }
        }
        KERNEL_UNROLL
        for (int j = 0; j < Config::features; ++j) acc[j] = kept(acc[j]);
        TILESCOPE_FRAGMENT(acc, kv_tile, acc.values, Columns{row, lane, Config::lanes});
    });
}

template <class Config, class Block>
KERNEL_FUNCTION void write_outputs(Block& block, ScalarState<Config, Block>& state,
                                   const AttentionArgs& args TILESCOPE_BLOCK_PARAM) {
    block.each_thread([&](int thread) {
        const int row = thread / Config::lanes;
        const int lane = thread % Config::lanes;
        const int query = block.q_block() * Config::block_m + row;
        if (query >= args.seqlen_q || !row_is_covered<Config>(row)) return;

        const std::int64_t output =
            (std::int64_t(block.batch()) * args.heads + block.head()) * args.seqlen_q + query;
        Half* const o = static_cast<Half*>(args.o) + output * Config::head_dim;
        KERNEL_UNROLL
        for (int j = 0; j < Config::features; ++j) {
            const int feature = lane + j * Config::lanes;
            if (feature >= covered_features<Config>()) continue;
            const Half value = normalised<typename Config::Guards>(state.acc[thread][j], state.l[thread]);
            o[feature] = value;
        }
        TILESCOPE_FRAGMENT(o, 0, strided<Config::features>(o + lane, Config::lanes), [=](int j) {
            const HookPlace place = Columns{row, lane, Config::lanes}(j);
            return place.col < covered_features<Config>() ? place : nowhere();
        });
        if (lane == 0) {
            const float lse = log_sum_exp(state.m[thread], state.l[thread]);
            args.lse[output] = lse;
            TILESCOPE_VALUE(lse, 0, row, 0, lse);
        }
    });
}

/// Attention of one block of queries: what one thread block computes.
template <class Config, class Block>
KERNEL_FUNCTION void scalar_attention(Block& block, ScalarShared<Config>& shared,
                                      const AttentionArgs& args TILESCOPE_BLOCK_PARAM) {
    static_assert(sizeof(ScalarShared<Config>) <= shared_memory_budget);
    stage_q<Config>(typename Config::Products(), block, shared, args TILESCOPE_BLOCK_ARG);

    const int tiles = kv_tile_count<Config>(args, block.q_block());
    for (int kv_tile = 0; kv_tile < Config::stages - 1; ++kv_tile) {
        stage_kv<Config>(block, shared, args, kv_tile, tiles);
    }

    ScalarState<Config, Block> state;
    ScalarTile<Config, Block> tile;
    block.each_thread([&](int thread) {
        state.m[thread] = first_max();
        state.l[thread] = 0.0f;
        KERNEL_UNROLL
        for (int j = 0; j < Config::features; ++j) state.acc[thread][j] = 0.0f;
    });

    for (int kv_tile = 0; kv_tile < tiles; ++kv_tile) {
        stage_kv<Config>(block, shared, args, kv_tile + Config::stages - 1, tiles);
        block.template wait<Config::stages - 1>();
        block.sync();
        softmax_tile<Config>(block, shared, state, tile, args, kv_tile TILESCOPE_BLOCK_ARG);
        block.sync();
        accumulate_tile<Config>(block, shared, state, tile, kv_tile TILESCOPE_BLOCK_ARG);
        if (!FAULT(load_before_barrier)) block.sync();
    }
    write_outputs<Config>(block, state, args TILESCOPE_BLOCK_ARG);
}

}  // namespace tilescope::KERNEL_BUILD
