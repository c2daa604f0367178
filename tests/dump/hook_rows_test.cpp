// Hooks of tiles in memory: whatever the width and however many threads share them, on the CPU.

#define DEBUG_DUMP
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "dump/hook.h"
#include "dump/recording/capture_plan.h"
#include "dump/recording/captured_run.h"
#include "dump/recording/tile_statistics.h"

namespace tilescope {
namespace {

constexpr int tile_rows = 5;

/// One tile of P, whose elements lie in memory with leading dimension `ld`, and count from 1.
struct Tile {
    Tile(int cols_, int ld_) : cols(cols_), ld(ld_), data(std::size_t(tile_rows * ld), -1.0f) {
        problem.seqlen_q = problem.block_m = tile_rows;
        problem.seqlen_kv = problem.block_n = cols;
        for (int i = 0; i < tile_rows * cols; ++i) data[std::size_t(i / cols * ld + i % cols)] = float(i + 1);
    }

    CapturePlan plan(SinkMode mode) const {
        return {problem, parse_selection("stage=p", "test"), std::size_t(1) << 20, mode};
    }
    /// What is kept of it after each of `threads` threads has hooked its share.
    std::vector<std::byte> hooked(const CapturePlan& to, int threads) const {
        std::vector<std::byte> memory(to.bytes());
        to.fill_unwritten(memory.data());
        const Sink sink = to.sink(memory.data());
        TILESCOPE_BLOCK(sink, 0, 0, 0);
        for (int thread = 0; thread < threads; ++thread) {
            TILESCOPE_TILE(p, 0, data.data(), ld, thread, threads);
        }
        return memory;
    }

    int cols;
    int ld;
    Problem problem;
    std::vector<float> data;
};

/// Calls a function with every width, padding and number of threads.
template <class Check>
void for_all_shares(const Check& check) {
    for (const int cols : {1, 4, 7, 8, 12, 20, 24, 48, 64, 96, 100}) {
        for (const int padding : {0, 3, 8}) {
            for (const int threads : {1, 2, 3, 7, 8, 20, 32, 33, 48, 96, 128, 1000}) {
                check(Tile(cols, cols + padding), threads);
            }
        }
    }
}

TEST(HookRows, KeepEveryElementAtItsPlace) {
    for_all_shares([](const Tile& tile, int threads) {
        const CapturePlan plan = tile.plan(SinkMode::tiles);
        const CapturedRun run(plan, tile.hooked(plan, threads), Units(), Provenance(), {});
        std::vector<float> kept(std::size_t(tile_rows * tile.cols));
        ASSERT_TRUE(run.read_tile(Stage::p, {}, kept));
        for (std::size_t i = 0; i < kept.size(); ++i) {
            ASSERT_EQ(kept[i], float(i + 1)) << tile.cols << " columns, " << threads << " threads";
        }
    });
}

TEST(HookRows, CountEveryElementOnce) {
    for_all_shares([](const Tile& tile, int threads) {
        CapturePlan plan = tile.plan(SinkMode::statistics);
        std::vector<std::byte> memory = tile.hooked(plan, threads);
        const StatisticsRun run(std::move(plan), std::move(memory),
                                RecordedCall(tile.problem, Units(), Provenance(), {}));
        const TileSummary kept = run.tile(Stage::p, {}).value();
        const int elements = tile_rows * tile.cols;
        ASSERT_EQ(kept.written, elements) << tile.cols << " columns, " << threads << " threads";
        // Integers whose sum is below 2^24: float32 adds them exactly.
        ASSERT_EQ(kept.sum, 0.5 * elements * (elements + 1));
        ASSERT_EQ(kept.least, 1.0f);
        ASSERT_EQ(kept.greatest, float(elements));
        ASSERT_EQ(kept.zero + kept.nan + kept.infinite, 0);
    });
}

}  // namespace
}  // namespace tilescope
