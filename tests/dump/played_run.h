#pragma once

// What the hook tests write, on the CPU and on the GPU, and what must have arrived.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "dump/recording/captured_run.h"

#ifdef __CUDACC__
#define TILESCOPE_TEST_HOST_DEVICE __host__ __device__
#else
#define TILESCOPE_TEST_HOST_DEVICE
#endif

namespace tilescope::test {

/// A number that no other element of the run has, exact in float32.
TILESCOPE_TEST_HOST_DEVICE inline float value_of(Stage stage, const TileId& tile, std::int64_t row,
                                                 std::int64_t col) {
    std::int64_t number = std::int64_t(stage);
    number = number * 2 + tile.batch;
    number = number * 6 + tile.head;
    number = number * 3 + tile.q_block;
    number = number * 3 + tile.kv_tile;
    number = number * 5 + row;
    number = number * 8 + col;
    return float(number);
}

/// Elements of all tiles of all stages inside the tensors of the small problem.
inline constexpr std::int64_t all_elements =
    12 * (10 * 8 + 3 * 13 * 8 + 3 * 13 * 7 + 2 * 10 * 13 + 2 * 3 * 10 + 3 * 10 * 7 + 10 * 7 + 10);

/// Every tile that is selected and has room holds its numbers, and nothing else. Returns elements compared.
inline std::int64_t expect_played(const CapturedRun& run, const CapturePlan& plan) {
    const Problem& problem = run.problem();
    std::int64_t compared = 0;
    for (const StageInfo& info : all_stages()) {
        for (std::int64_t index = 0; index < tile_count(problem, info.stage); ++index) {
            const TileId tile = tile_at(problem, info.stage, index);
            const std::int64_t slot = plan.tile_slot(info.stage, tile);
            const bool kept = slot >= 0 && slot < plan.capacity(info.stage);
            EXPECT_EQ(run.has_tile(info.stage, tile), kept) << info.name;
            if (!kept) continue;
            const TileShape shape = tile_shape(problem, info.stage);
            const TileShape extent = tile_extent(problem, info.stage, tile);
            std::vector<float> values(std::size_t(shape.elements()));
            run.read_tile(info.stage, tile, values);
            for (std::int64_t i = 0; i < shape.elements(); ++i) {
                const std::int64_t row = i / shape.cols;
                const std::int64_t col = i % shape.cols;
                const float value = values[std::size_t(i)];
                if (row < extent.rows && col < extent.cols) {
                    EXPECT_EQ(value, value_of(info.stage, tile, row, col)) << info.name;
                    ++compared;
                } else {
                    EXPECT_TRUE(is_unwritten(value)) << info.name << ": padding was written";
                }
            }
        }
        const StageCapture& capture = run.capture().stages[std::size_t(info.stage)];
        EXPECT_TRUE(capture.conflicts.empty()) << info.name;
        EXPECT_EQ(capture.elements_out_of_range, 0) << info.name;
    }
    return compared;
}

}  // namespace tilescope::test
