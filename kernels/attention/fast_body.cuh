#pragma once

// The fast kernel: both products on tensor cores with mma.sync, scores, P and the accumulator in registers, K
// and V in swizzled shared memory that is filled asynchronously, exponentials to base two. A warp owns its
// rows.

#include "dump/hook.h"
#include "kernels/attention/fast_config.cuh"
#include "kernels/attention/fast_outputs.cuh"
#include "kernels/attention/fast_tile.cuh"
#include "kernels/attention/launch.cuh"

namespace tilescope::KERNEL_BUILD {

/// Starts the copy of rows [rows.first, rows.first + count) of a matrix to a swizzled tile in shared memory,
/// by `threads` threads. Rows from rows.end on become zero; in global memory they are `stride` bytes apart.
template <class Config, int threads>
KERNEL_FUNCTION void copy_rows(std::uint32_t tile, const void* matrix, RowRange rows, int count, int thread,
                               int stride = Config::row_bytes) {
    constexpr int step = threads / Config::chunks;
    const int chunk = thread % Config::chunks;
    const char* source = static_cast<const char*>(matrix) +
                         (std::int64_t(rows.first) + thread / Config::chunks) * stride + chunk * chunk_bytes;
    KERNEL_UNROLL
    for (int i = 0; i < count / step; ++i) {
        const int row = thread / Config::chunks + i * step;
        const int to = row * Config::row_bytes + (chunk ^ row % swizzle_rows) * chunk_bytes;
        copy_chunk_async(tile + std::uint32_t(to), source, rows.first + row < rows.end);
        source += step * stride;
    }
}

/// A split's KV tiles: their stages in shared memory, filled by the threads of the split.
template <class Config>
struct FastStream {
    std::int64_t head;  ///< offset of the KV head in k and v, in bytes
    unsigned char* shared;
    int thread;

    KERNEL_FUNCTION unsigned char* k_tile(int stage) const { return shared + stage * 2 * Config::kv_bytes; }
    KERNEL_FUNCTION unsigned char* v_tile(int stage) const { return k_tile(stage) + Config::kv_bytes; }

    KERNEL_FUNCTION void load_k(const AttentionArgs& args, int tile, int stage) const {
        const int rows = FAULT(rows_not_divided) ? Config::block_n - 16 : Config::block_n;
        copy_rows<Config, Config::group>(shared_address(k_tile(stage)),
                                         static_cast<const char*>(args.k) + head, k_rows<Config>(args, tile),
                                         rows, thread);
        commit_copies();
    }
    KERNEL_FUNCTION void load_v(const AttentionArgs& args, int tile, int stage) const {
        copy_rows<Config, Config::group>(shared_address(v_tile(stage)),
                                         static_cast<const char*>(args.v) + head, v_rows<Config>(args, tile),
                                         Config::block_n, thread);
        commit_copies();
    }
    /// Two groups, as every tile has; those of tiles from `end` on are empty.
    KERNEL_FUNCTION void load(const AttentionArgs& args, int tile, int end, int stage) const {
        if (tile < end) {
            load_k(args, tile, stage);
            load_v(args, tile, stage);
        } else {
            commit_copies();
            commit_copies();
        }
    }
};

/// Starts the copy of the block's queries.
template <class Config>
KERNEL_FUNCTION void load_q(const AttentionArgs& args, unsigned char* tile, int batch, int head,
                            int q_block) {
    const bool by_row = FAULT(bshd_as_bhsd);
    const std::int64_t row = by_row ? std::int64_t(batch) * args.seqlen_q * args.heads + head
                                    : (std::int64_t(batch) * args.heads + head) * args.seqlen_q;
    const int stride = by_row ? args.heads * Config::row_bytes : Config::row_bytes;
    copy_rows<Config, Config::threads>(
        shared_address(tile), static_cast<const char*>(args.q) + row * Config::row_bytes,
        q_rows<Config>(args, q_block), Config::block_m, int(threadIdx.x), stride);
    commit_copies();
}

/// The warp's queries, in registers where there is room.
template <class Config>
KERNEL_FUNCTION void take_q(FastQ<Config>& q, std::uint32_t q_tile, const FastThread& thread) {
    if constexpr (Config::q_in_registers) {
        const std::uint32_t q_row =
            rows_first<Config>(q_tile + std::uint32_t(thread.first_row * Config::row_bytes), thread.lane);
        KERNEL_UNROLL
        for (int depth = 0; depth < Config::depths; ++depth) {
            load_matrices(q[depth][0], q_row ^ depth * 2 * chunk_bytes);
        }
    }
}

template <class Config>
KERNEL_FUNCTION FastRows<Config> first_rows() {
    FastRows<Config> rows;
    KERNEL_UNROLL
    for (int row = 0; row < Config::row_tiles; ++row) {
        KERNEL_UNROLL
        for (int half = 0; half < 2; ++half) {
            rows.m[row][half] = first_max();
            rows.l[row][half] = 0.0f;
        }
        KERNEL_UNROLL
        for (auto& of_tile : rows.acc[row]) {
            KERNEL_UNROLL
            for (float& acc : of_tile) acc = 0.0f;
        }
    }
    return rows;
}

/// Records what the warp's rows hold after a tile, and rounds it where that is the fault.
template <class Config>
KERNEL_FUNCTION void end_tile(FastRows<Config>& rows, const FastThread& thread,
                              int kv_tile TILESCOPE_CALL_PARAM) {
    if (FAULT(half_accumulator)) {
        KERNEL_UNROLL
        for (auto& of_row : rows.acc) {
            KERNEL_UNROLL
            for (auto& of_tile : of_row) {
                KERNEL_UNROLL
                for (float& acc : of_tile) acc = kept(acc);
            }
        }
    }
    TILESCOPE_FRAGMENT(l, kv_tile, rows.l, MmaRowParts{thread.first_row, thread.lane});
    TILESCOPE_FRAGMENT(acc, kv_tile, rows.acc,
                       MmaAccumulators<Config::feature_tiles>{thread.first_row, 0, thread.lane});
}

/// Records scores and maxima.
template <class Config>
KERNEL_FUNCTION void end_scores(const FastRows<Config>& rows, const FastScores<Config>& s,
                                const FastThread& thread, int kv_tile TILESCOPE_CALL_PARAM) {
    TILESCOPE_FRAGMENT(s, kv_tile, s, MmaAccumulators<Config::key_tiles>{thread.first_row, 0, thread.lane});
    TILESCOPE_FRAGMENT(m, kv_tile, rows.m, MmaRowCopies{thread.first_row, thread.lane});
}

/// The KV tiles [first, end) of a split.
struct TileRange {
    int first;
    int end;
};

template <class Config>
KERNEL_FUNCTION TileRange tiles_of(const AttentionArgs& args, int q_block, int split) {
    const int seen = kv_tile_count<Config>(args, q_block);
    if constexpr (Config::splits == 1) return {0, seen};
    const int all = (args.seqlen_kv + Config::block_n - 1) / Config::block_n;
    const int of_split = (all + Config::splits - 1) / Config::splits;
    return {split * of_split, smaller((split + 1) * of_split, seen)};
}

/// Passes the barriers of the tiles that the first split has more. compute-sanitizer's racecheck tells
/// barriers by their number: behind __syncthreads() it takes warps that passed fewer of them for unordered,
/// and reports hazards.
template <class Config>
KERNEL_FUNCTION void even_barriers(TileRange of_split, TileRange of_first, int split) {
    const int tiles = of_split.end > of_split.first ? of_split.end - of_split.first : 0;
    for (int passed = tiles; passed < of_first.end; ++passed) split_barrier<Config>(split);
}

/// Adds the tiles of the split to the running state. The first tiles are on their way.
template <class Config>
KERNEL_FUNCTION void attend(FastRows<Config>& rows, const FastStream<Config>& stream, unsigned char* q_tile,
                            const AttentionArgs& args, int first_query, TileRange tiles,
                            const FastThread& thread TILESCOPE_CALL_PARAM) {
    const float scale = args.sm_scale * log2_e;
    const int warp_query = first_query + thread.first_row;
    FastQ<Config> q;
    take_q<Config>(q, shared_address(q_tile), thread);
    KERNEL_ROLLED
    for (int tile = tiles.first; tile < tiles.end; ++tile) {
        const bool is_first = tile == tiles.first;
        const int stage = (tile - tiles.first) % Config::stages;
        if (!is_first) {
            wait_for_copies<2 * (Config::stages - 2)>();
            split_barrier<Config>(thread.split);
            // Everybody is done with the tile before: its stage takes the next one.
            stream.load(args, tile - 1 + Config::stages, tiles.end,
                        (stage + Config::stages - 1) % Config::stages);
        }
        TILESCOPE_FRAGMENT(k, tile, swizzled<Config>(stream.k_tile(stage), Config::block_n, thread.in_group),
                           swizzled<Config>(stream.k_tile(stage), Config::block_n, thread.in_group));
        FastScores<Config> s;
        multiply_q_k<Config>(s, q, shared_address(q_tile), shared_address(stream.k_tile(stage)), thread);
        mask_edge<Config>(s, args, warp_query, tile * Config::block_n, thread.lane);
        raise_max<Config>(rows, s, args, scale, tile * Config::block_n, thread.lane);
        end_scores<Config>(rows, s, thread, tile TILESCOPE_BLOCK_ARG);
        if (is_first) {
            wait_for_copies<2 * (Config::stages - 1)>();
            split_barrier<Config>(thread.split);
        }
        TILESCOPE_FRAGMENT(v, tile, swizzled<Config>(stream.v_tile(stage), Config::block_n, thread.in_group),
                           swizzled<Config>(stream.v_tile(stage), Config::block_n, thread.in_group));
        if (FAULT(v_overwritten)) {
            if (tile + Config::stages < tiles.end) stream.load_v(args, tile + Config::stages, stage);
        }
        multiply_p_v<Config>(rows, s, scale, shared_address(stream.v_tile(stage)), thread,
                             tile TILESCOPE_BLOCK_ARG);
        end_tile<Config>(rows, thread, tile TILESCOPE_BLOCK_ARG);
    }
}

/// Attention of one block of queries.
template <class Config>
KERNEL_FUNCTION void fast_block(const AttentionArgs& args, unsigned char* fast_shared, int batch, int head,
                                int q_block TILESCOPE_CALL_PARAM) {
    const FastThread thread = fast_thread<Config>();
    const std::int64_t q_head = std::int64_t(batch) * args.heads + head;
    const std::int64_t kv_head = std::int64_t(batch) * args.heads_kv + head_kv(args, head);
    const FastStream<Config> stream = {kv_head * args.seqlen_kv * Config::row_bytes,
                                       fast_shared + Config::q_bytes + thread.split * Config::split_bytes,
                                       thread.in_group};
    const TileRange tiles = tiles_of<Config>(args, q_block, thread.split);

    if (!FAULT(wait_missing)) load_q<Config>(args, fast_shared, batch, head, q_block);
    KERNEL_UNROLL
    for (int stage = 0; stage < Config::stages; ++stage) {
        stream.load(args, tiles.first + stage, tiles.end, stage);
    }
    if (FAULT(wait_missing)) load_q<Config>(args, fast_shared, batch, head, q_block);
    FastRows<Config> rows = first_rows<Config>();
    // All but K of the first tile and what comes after it; then this K as well.
    constexpr int groups = 2 * Config::stages;
    if constexpr (Config::splits > 1) {
        wait_for_copies<groups>();
        __syncthreads();
    }
    if (FAULT(wait_missing)) {
        wait_for_copies<groups + 1>();
    } else {
        wait_for_copies<groups - 1>();
    }
    split_barrier<Config>(thread.split);
    TILESCOPE_FRAGMENT(q, 0, swizzled<Config>(fast_shared, Config::block_m, threadIdx.x, Config::threads),
                       swizzled<Config>(fast_shared, Config::block_m, threadIdx.x, Config::threads));

    const int first_query = q_block * Config::block_m;
    attend<Config>(rows, stream, fast_shared, args, first_query, tiles, thread TILESCOPE_BLOCK_ARG);
    add_lanes<Config>(rows);
    if constexpr (Config::splits == 1) {
        if (FAULT(columns_uncovered)) {
            store_rows<Config, Config::head_dim - uncovered>(args, rows, q_head, first_query,
                                                             thread TILESCOPE_BLOCK_ARG);
        } else {
            store_rows<Config, Config::head_dim>(args, rows, q_head, first_query, thread TILESCOPE_BLOCK_ARG);
        }
    } else {
        even_barriers<Config>(tiles, tiles_of<Config>(args, q_block, 0), thread.split);
        wait_for_copies<0>();
        __syncthreads();
        const FastParts<Config> parts(fast_shared);
        leave_parts<Config>(parts, rows, thread);
        __syncthreads();
        store_merged<Config>(args, parts, args.sm_scale * log2_e, q_head, first_query,
                             thread TILESCOPE_BLOCK_ARG);
    }
}

template <class Config, bool record>
__global__ void __launch_bounds__(Config::threads, 2)
    fast_kernel(const AttentionArgs args TILESCOPE_SINK_PARAM(sink)) {
    extern __shared__ __align__(1024) unsigned char fast_shared[];
    const int batch = int(blockIdx.z);
    const int head = int(blockIdx.y);
    // With a causal mask the last blocks have the most to do: they begin.
    const int q_block = args.causal ? int(gridDim.x - 1 - blockIdx.x) : int(blockIdx.x);
    TILESCOPE_BLOCK_CALL(record, sink, batch, head, q_block,
                         fast_block<Config>(args, fast_shared, batch, head, q_block TILESCOPE_BLOCK_ARG));
}

struct FastKernel {
    template <KernelConfig config>
    using ConfigOf = FastConfig<ElementOf<config.dtype>, config.block_m, config.block_n, config.stages,
                                config.splits, config.head_dim>;

    template <class Config>
    static auto function() {
        return fast_kernel<Config, with_hooks>;
    }

    template <class Config>
    static Launch launch(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        auto* const kernel =
            TILESCOPE_RECORDS(sink) ? fast_kernel<Config, with_hooks> : fast_kernel<Config, without_hooks>;
        return launch_attention<Config>(kernel, "fast", Config::shared_bytes, args TILESCOPE_SINK_ARG(sink));
    }
};

}  // namespace tilescope::KERNEL_BUILD
