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

/// One tile of P, whose elements lie in memory row by row or column by column, each `padding` longer than it need be,
/// and count from 1.
struct Tile {
    Tile(int cols_, int padding, bool is_transposed_)
        : cols(cols_),
          is_transposed(is_transposed_),
          ld((is_transposed ? tile_rows : cols) + padding),
          data(std::size_t((is_transposed ? cols : tile_rows) * ld), -1.0f) {
        problem.seqlen_q = problem.block_m = tile_rows;
        problem.seqlen_kv = problem.block_n = cols;
        for (int i = 0; i < tile_rows * cols; ++i) {
            const int row = i / cols, col = i % cols;
            data[std::size_t(is_transposed ? col * ld + row : row * ld + col)] = float(i + 1);
        }
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
            if (is_transposed) {
                TILESCOPE_TILE(p, 0, tilescope::transposed(data.data()), ld, thread, threads);
            } else {
                TILESCOPE_TILE(p, 0, data.data(), ld, thread, threads);
            }
        }
        return memory;
    }

    int cols;
    bool is_transposed;
    int ld;
    Problem problem;
    std::vector<float> data;
};

/// Calls a function with every width, padding, order and number of threads.
template <class Check>
void for_all_shares(const Check& check) {
    for (const int cols : {1, 4, 7, 8, 12, 20, 24, 48, 64, 96, 100}) {
        for (const int padding : {0, 3, 8}) {
            for (const int threads : {1, 2, 3, 7, 8, 20, 32, 33, 48, 96, 128, 1000}) {
                for (const bool is_transposed : {false, true})
                    check(Tile(cols, padding, is_transposed), threads);
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
            ASSERT_EQ(kept[i], float(i + 1)) << tile.cols << " columns, transposed " << tile.is_transposed
                                             << ", " << threads << " threads";
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

/// Rows 1 to 3 of a tile, of which the memory holds these alone.
TEST(HookRows, TransposedMemoryBeginsAtTheFirstRow) {
    const Tile tile(6, 0, true);
    const CapturePlan plan = tile.plan(SinkMode::tiles);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    const Sink sink = plan.sink(memory.data());
    std::vector<float> columns;
    for (int col = 0; col < 6; ++col) {
        for (int row = 1; row < 4; ++row) columns.push_back(float(row * 6 + col + 1));
    }
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    for (int lane = 0; lane < 32; ++lane) {
        TILESCOPE_ROWS(p, 0, 1, 3, tilescope::transposed(columns.data()), 3, lane, 32);
    }
    const CapturedRun run(plan, std::move(memory), Units(), Provenance(), {});
    std::vector<float> kept(30);
    ASSERT_TRUE(run.read_tile(Stage::p, {}, kept));
    for (int i = 0; i < 30; ++i) {
        const float value = kept[std::size_t(i)];
        if (i >= 6 && i < 24) {
            EXPECT_EQ(value, float(i + 1));
        } else {
            EXPECT_TRUE(is_unwritten(value));
        }
    }
}

/// A softmax in place, of which one lane is through with its elements before the next one begins.
TEST(HookRows, LanesRecordInPlaceWhatTheyOverwrite) {
    constexpr int cols = 8, lanes = 4, mine = cols / lanes;
    Problem problem;
    problem.seqlen_kv = problem.block_n = cols;
    const CapturePlan plan(problem, parse_selection("stage=s,p", "test"), 1 << 20);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    const Sink sink = plan.sink(memory.data());
    float row_of_s[cols];
    for (int col = 0; col < cols; ++col) row_of_s[col] = float(col);

    TILESCOPE_BLOCK(sink, 0, 0, 0);
    for (int lane = 0; lane < lanes; ++lane) {
        TILESCOPE_FRAGMENT(s, 0, strided<mine>(row_of_s + lane, lanes), Columns{0, lane, lanes});
        for (int col = lane; col < cols; col += lanes) row_of_s[col] = -row_of_s[col];
        TILESCOPE_FRAGMENT(p, 0, strided<mine>(row_of_s + lane, lanes), Columns{0, lane, lanes});
    }
    const CapturedRun run(plan, std::move(memory), Units(), Provenance(), {});
    std::vector<float> s(cols), p(cols);
    ASSERT_TRUE(run.read_tile(Stage::s, {}, s));
    ASSERT_TRUE(run.read_tile(Stage::p, {}, p));
    for (int col = 0; col < cols; ++col) {
        EXPECT_EQ(s[std::size_t(col)], float(col));
        EXPECT_EQ(p[std::size_t(col)], -float(col));
    }
}

}  // namespace
}  // namespace tilescope
