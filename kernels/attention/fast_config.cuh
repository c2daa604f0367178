#pragma once

// What a build of the fast kernel is compiled for, and how its threads and its shared memory are laid out.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/attention/fast.h"
#include "kernels/attention/mma.cuh"
#include "kernels/attention/steps.h"

namespace tilescope {

inline constexpr float log2_e = 1.44269504f;

template <Dtype dtype>
using ElementOf = std::conditional_t<dtype == Dtype::bf16, __nv_bfloat16, __half>;

/// Four warps. They share the rows of the query block or, with two splits, each half of them takes its own
/// part of the KV tiles.
template <class Element_, int block_m_, int block_n_, int stages_, int splits_, int head_dim_>
struct FastConfig {
    using Element = Element_;
    static constexpr int block_m = block_m_;
    static constexpr int block_n = block_n_;
    static constexpr int stages = stages_;
    static constexpr int splits = splits_;
    static constexpr int head_dim = head_dim_;
    static constexpr int threads = 128;
    static constexpr int group = threads / splits;          ///< threads of a split
    static constexpr int rows = block_m / (group / 32);     ///< of a warp
    static constexpr int row_tiles = rows / 16;             ///< tensor core tiles of a warp: along its rows,
    static constexpr int key_tiles = block_n / 8;           ///< along the keys of its scores,
    static constexpr int feature_tiles = head_dim / 8;      ///< along the features of its accumulator,
    static constexpr int depths = head_dim / 16;            ///< steps of a score,
    static constexpr int key_depths = block_n / 16;         ///< and of the accumulator
    static constexpr bool q_in_registers = row_tiles == 1;  ///< two tiles of rows leave no room for it
    static constexpr int row_bytes = head_dim * 2;
    static constexpr int chunks = row_bytes / chunk_bytes;  ///< of a row
    static constexpr int q_bytes = block_m * row_bytes;
    static constexpr int kv_bytes = block_n * row_bytes;
    static constexpr int split_bytes = 2 * stages * kv_bytes;
    /// What the splits leave to each other in the end lies where their tiles were.
    static constexpr int merged_bytes = splits * block_m * (head_dim + 2) * 4;
    static constexpr int shared_bytes = q_bytes + splits * split_bytes;
    static_assert(stages >= 2 && rows % 16 == 0 && block_n % 16 == 0);
    static_assert(splits == 1 || merged_bytes <= shared_bytes);
    static_assert(shared_bytes <= shared_memory_budget);
};

/// What a warp keeps of its rows in registers. A lane has two rows of each 16: lane / 4 and the one 8 below;
/// four lanes share a row. Elements are in the order of mma.sync's accumulators.
template <class Config>
struct FastRows {
    float acc[Config::row_tiles][Config::feature_tiles][4];
    float m[Config::row_tiles][2];  ///< not scaled
    float l[Config::row_tiles][2];  ///< the sum of the lane's own columns
};

template <class Config>
using FastScores = float[Config::row_tiles][Config::key_tiles][4];
template <class Config>
using FastQ = std::uint32_t[Config::depths][Config::row_tiles][4];

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

struct FastThread {
    int lane;
    int split;
    int in_group;   ///< index among the threads of the split
    int first_row;  ///< of the warp, in the query block
};

template <class Config>
KERNEL_FUNCTION FastThread fast_thread() {
    const int thread = int(threadIdx.x);
    // The compiler does not know that a warp is uniform in it.
    const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    constexpr int warps = Config::group / 32;
    const int split = Config::splits == 1 ? 0 : warp / warps;
    const int in_split = warp - split * warps;
    return {thread % 32, split, in_split * 32 + thread % 32, in_split * Config::rows};
}

/// A barrier of the threads of a split.
template <class Config>
KERNEL_FUNCTION void split_barrier(int split) {
    if constexpr (Config::splits == 1) {
        __syncthreads();
    } else {
        // Barrier 0 is that of the whole block.
        asm volatile("bar.sync %0, %1;" ::"r"(split + 1), "n"(Config::group) : "memory");
    }
}

/// Where a lane finds its rows of four 8x8 matrices, two along the rows of a tile and two along its columns,
/// the rows first; the tile begins at `tile` in shared memory. The ones `chunk` further to the right are at
/// address ^ (chunk * chunk_bytes) for even chunks, the ones 16 rows below at address + 16 * row_bytes.
template <class Config>
KERNEL_FUNCTION std::uint32_t rows_first(std::uint32_t tile, int lane) {
    const int matrix = lane / 8;
    const int row = lane % 8;
    return tile + std::uint32_t((matrix % 2 * 8 + row) * Config::row_bytes +
                                (matrix / 2 ^ row % swizzle_rows) * chunk_bytes);
}

/// The same with the columns first.
template <class Config>
KERNEL_FUNCTION std::uint32_t columns_first(std::uint32_t tile, int lane) {
    const int matrix = lane / 8;
    const int row = lane % 8;
    const int swizzle = FAULT(swizzle_missing) ? 0 : row % swizzle_rows;
    return tile +
           std::uint32_t((matrix / 2 * 8 + row) * Config::row_bytes + (matrix % 2 ^ swizzle) * chunk_bytes);
}

}  // namespace tilescope::KERNEL_BUILD
