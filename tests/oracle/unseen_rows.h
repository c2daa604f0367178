#pragma once

// Kernels in which a thread has a row of its own: it leaves out the KV tiles of which it sees nothing.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {

/// Whether a row sees a key of the tile: causal, its diagonal at the bottom right, and a window to the left.
inline bool sees(const Problem& problem, std::int64_t row, std::int64_t kv_tile) {
    const std::int64_t diagonal = row + problem.seqlen_kv - problem.seqlen_q;
    const std::int64_t first = kv_tile * problem.block_n;
    for (std::int64_t key = first; key < std::min(first + problem.block_n, problem.seqlen_kv); ++key)
        if (key <= diagonal && key >= diagonal - problem.window_left) return true;
    return false;
}

/// The call with what its mask hides behind a bias of -inf, and no mask: as block-sparse, tree and chunk masks are given.
inline MemoryRecording masked_by_bias(const MemoryRecording& run, const Inputs& inputs) {
    Problem problem = run.problem();
    Bias bias{1, 1, problem.seqlen_q, problem.seqlen_kv, {}};
    for (std::int64_t row = 0; row < problem.seqlen_q; ++row) {
        const std::int64_t diagonal = row + problem.seqlen_kv - problem.seqlen_q;
        for (std::int64_t key = 0; key < problem.seqlen_kv; ++key) {
            const bool visible = key <= diagonal && key >= diagonal - problem.window_left;
            bias.values.push_back(visible ? 0 : -std::numeric_limits<float>::infinity());
        }
    }
    problem.mask = Mask::none;
    problem.window_left = -1;
    MemoryRecording biased = declared_as(run, problem, run.units(), inputs);
    biased.set_bias(std::move(bias));
    biased.set_capture(run.capture());
    return biased;
}

/// Makes unwritten what such a kernel does not write. Returns how many elements these are.
inline std::int64_t leave_out_unseen_rows(MemoryRecording& run) {
    const Problem& problem = run.problem();
    std::int64_t left_out = 0;
    for (const StageInfo& info : stages_of(problem.direction)) {
        if (!info.per_kv_tile || info.row_axis != Axis::query) continue;
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            const TileId tile = tile_at(problem, info.stage, i);
            if (!run.has_tile(info.stage, tile)) continue;
            const TileShape extent = tile_extent(problem, info.stage, tile);
            for (std::int64_t row = 0; row < extent.rows; ++row) {
                if (sees(problem, tile.q_block * problem.block_m + row, tile.kv_tile)) continue;
                for (std::int64_t col = 0; col < extent.cols; ++col, ++left_out)
                    poke(run, info.stage, tile, row, col, unwritten);
            }
        }
    }
    return left_out;
}

}  // namespace tilescope::test
