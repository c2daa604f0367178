#pragma once

// Where the scalar kernel takes q k^T from.

#include "dump/hook.h"
#include "kernels/attention/stage_rows.h"
#include "kernels/attention/steps.h"

namespace tilescope {

template <int size>
struct Registers {
    float values[size];
    KERNEL_FUNCTION float& operator[](int i) { return values[i]; }
};

/// It multiplies tiles of Q and K in shared memory.
struct TileProducts {
    template <class Config>
    struct Shared {
        alignas(16) Half q[Config::block_m * Config::ld];
        Half k[Config::stages][Config::block_n * Config::ld];
    };
};

/// They were computed before it began, and lie in AttentionArgs::products.
struct StoredProducts {
    template <class Config>
    struct Shared {};
};

template <class Config>
struct ScalarShared : Config::Products::template Shared<Config> {
    alignas(16) Half v[Config::stages][Config::block_n * Config::ld];
    float p[Config::block_m * Config::ld_p];
};

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

/// Loads the Q tile, which stays for all KV tiles.
template <class Config, class Block>
KERNEL_FUNCTION void stage_q(TileProducts, Block& block, ScalarShared<Config>& shared,
                             const AttentionArgs& args TILESCOPE_BLOCK_PARAM) {
    const RowLayout q = q_layout<Config>(args, block.batch(), block.head());
    stage_rows<Config>(block, shared.q, static_cast<const Half*>(args.q) + q.first,
                       q_rows<Config>(args, block.q_block()), Config::block_m, q.stride);
    block.commit();
    block.template wait<0>();
    block.sync();
    block.each_thread([&](int thread) {
        // Once: the Q tile stays for all KV tiles.
        TILESCOPE_TILE(q, 0, shared.q, Config::ld, thread, Config::threads);
    });
}

/// Starts to load a K tile; `matrix` is where K of the head begins.
template <class Config, class Block>
KERNEL_FUNCTION void stage_k(TileProducts, Block& block, ScalarShared<Config>& shared,
                             const AttentionArgs& args, std::int64_t matrix, int kv_tile) {
    stage_rows<Config>(block, shared.k[kv_tile % Config::stages], static_cast<const Half*>(args.k) + matrix,
                       k_rows<Config>(args, kv_tile), Config::block_n);
}

/// The thread's columns of the KV tile, of its row.
template <class Config, class Block>
KERNEL_FUNCTION void products_of(TileProducts, const Block&, const ScalarShared<Config>& shared,
                                 const AttentionArgs&, int kv_tile, int thread,
                                 Registers<Config::columns>& s TILESCOPE_BLOCK_PARAM) {
    const Half* const k = shared.k[kv_tile % Config::stages];
    TILESCOPE_TILE(k, kv_tile, k, Config::ld, thread, Config::threads);
    const int row = thread / Config::lanes;
    const int lane = thread % Config::lanes;

    KERNEL_UNROLL
    for (int j = 0; j < Config::columns; ++j) s[j] = 0.0f;
    KERNEL_UNROLL_TWO
    for (int d = first_depth<Config>(lane); d < score_depth<Config>(); ++d) {
        const float q = to_float(shared.q[row * Config::ld + d]);
        KERNEL_UNROLL
        for (int j = 0; j < Config::columns; ++j) {
            s[j] = fmaf(q, to_float(k[place_in_k<Config>(lane + j * Config::lanes, d)]), s[j]);
        }
    }
}

template <class Config, class Block>
KERNEL_FUNCTION void stage_q(StoredProducts, Block&, ScalarShared<Config>&,
                             const AttentionArgs& TILESCOPE_BLOCK_PARAM) {}

template <class Config, class Block>
KERNEL_FUNCTION void stage_k(StoredProducts, Block&, ScalarShared<Config>&, const AttentionArgs&,
                             std::int64_t, int) {}

/// Of a row of products that begins with the first key of the tile and of which `keys` are there.
template <class Config, class Product>
KERNEL_FUNCTION void read_products(const Product* row, int lane, int keys, Registers<Config::columns>& s) {
    KERNEL_UNROLL
    for (int j = 0; j < Config::columns; ++j) {
        const int column = lane + j * Config::lanes;
        s[j] = column < keys ? float(row[column]) : 0.0f;
    }
}

/// 0 where there is no query or no key, as where rows of zeros are multiplied.
template <class Config, class Block>
KERNEL_FUNCTION void products_of(StoredProducts, const Block& block, const ScalarShared<Config>&,
                                 const AttentionArgs& args, int kv_tile, int thread,
                                 Registers<Config::columns>& s TILESCOPE_BLOCK_PARAM) {
    const int query = block.q_block() * Config::block_m + thread / Config::lanes;
    const int lane = thread % Config::lanes;
    const int first_key = kv_tile * Config::block_n;
    const int keys = query < args.seqlen_q ? args.seqlen_kv - first_key : 0;
    const std::int64_t row =
        (std::int64_t(block.batch()) * args.heads + block.head()) * args.seqlen_q + query;
    const std::int64_t first = row * args.products_pitch + first_key;
    if (FAULT(half_scores)) {
        read_products<Config>(static_cast<const Half*>(args.products) + first, lane, keys, s);
    } else {
        read_products<Config>(static_cast<const float*>(args.products) + first, lane, keys, s);
    }
}

}  // namespace tilescope::KERNEL_BUILD
