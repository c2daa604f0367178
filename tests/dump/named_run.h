#pragma once

// A run that records named tiles of every kind, on the CPU and on the GPU, and what must have arrived.

#include <vector>

#include "dump/hook.h"
#include "tests/dump/played_run.h"
#include "tests/dump/small_problem.h"

TILESCOPE_NAMED_TILE(rescale, 0);
TILESCOPE_NAMED_TILE(keep, 1);
TILESCOPE_NAMED_TILE(block_max, 2);
TILESCOPE_NAMED_TILE(mean_k, 3);

namespace tilescope::test {

inline Problem named_problem() {
    Problem problem = small_problem();
    problem.named_tiles = {
        {.name = "rescale"},
        {.name = "keep", .rows = Axis::query, .cols = Axis::key},
        {.name = "block_max", .rows = Axis::unit},
        {.name = "mean_k", .rows = Axis::key, .cols = Axis::feature, .col_size = 6, .per_q_block = false},
    };
    return problem;
}

/// Elements of the named tiles inside the tensors: each query row by KV tile, each query row and key, each
/// tile, and 6 features of each key of a KV head.
inline constexpr std::int64_t named_elements = 12 * 3 * 10 + 12 * 10 * 13 + 12 * 3 * 3 + 2 * 3 * 13 * 6;

#ifdef __CUDACC__
#define TILESCOPE_TEST_THREAD __device__
#else
#define TILESCOPE_TEST_THREAD
#endif

/// Plays one thread of the thread block of a query block: whole tiles, padding included.
TILESCOPE_TEST_THREAD inline void play_named_block(TileId id, int thread,
                                                   int threads TILESCOPE_HOST_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK(sink, id.batch, id.head, id.q_block);
    for (id.kv_tile = 0; id.kv_tile < 3; ++id.kv_tile) {
        for (int row = thread; row < 4; row += threads)
            TILESCOPE_VALUE(rescale, id.kv_tile, row, 0, value_of(Stage::named0, id, row, 0));
        float tile[4 * 5];
        for (int i = 0; i < 4 * 5; ++i) tile[i] = value_of(Stage::named1, id, i / 5, i % 5);
        TILESCOPE_TILE(keep, id.kv_tile, tile, 5, thread, threads);
        TILESCOPE_REPLICATED(block_max, id.kv_tile, 0, 0, value_of(Stage::named2, id, 0, 0));
    }
}

/// The same of a KV head.
TILESCOPE_TEST_THREAD inline void play_named_head(TileId id, int thread,
                                                  int threads TILESCOPE_HOST_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK(sink, id.batch, id.head, 0);
    for (id.kv_tile = 0; id.kv_tile < 3; ++id.kv_tile) {
        for (int i = thread; i < 5 * 6; i += threads)
            TILESCOPE_VALUE(mean_k, id.kv_tile, i / 6, i % 6, value_of(Stage::named3, id, i / 6, i % 6));
    }
}

/// Every selected named tile holds its numbers, and nothing else. Returns elements compared.
inline std::int64_t expect_named(const Recording& run, const Selection& selection) {
    const Problem& problem = run.problem();
    std::int64_t compared = 0;
    for (int i = 0; i < 4; ++i) {
        const Stage stage = named_tile(i);
        for (std::int64_t index = 0; index < tile_count(problem, stage); ++index) {
            const TileId tile = tile_at(problem, stage, index);
            const bool selected = selection.selects(problem, stage, tile);
            EXPECT_EQ(run.has_tile(stage, tile), selected) << i << " " << index;
            if (!selected) continue;
            const TileShape shape = tile_shape(problem, stage);
            const TileShape extent = tile_extent(problem, stage, tile);
            std::vector<float> values(std::size_t(shape.elements()));
            EXPECT_TRUE(run.read_tile(stage, tile, values));
            for (std::int64_t e = 0; e < shape.elements(); ++e) {
                const bool inside = e / shape.cols < extent.rows && e % shape.cols < extent.cols;
                compared += inside;
                const float value = values[std::size_t(e)];
                if (inside)
                    EXPECT_EQ(value, value_of(stage, tile, e / shape.cols, e % shape.cols)) << i;
                else
                    EXPECT_TRUE(is_unwritten(value)) << i << ": padding was written";
            }
        }
    }
    return compared;
}

}  // namespace tilescope::test
