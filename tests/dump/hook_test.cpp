#define DEBUG_DUMP
#include "dump/hook.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <thread>
#include <vector>

#include "dump/recording/capture_plan.h"
#include "dump/recording/captured_run.h"
#include "tests/dump/played_run.h"
#include "tests/dump/small_problem.h"

namespace tilescope {
namespace {

/// A type of the kernel's own: 16-bit integers that stand for halves.
namespace fixed_point {
struct Half {
    std::int16_t twice;
};
float hook_float(Half value) {
    return float(value.twice) / 2;
}
}  // namespace fixed_point

struct Host {
    explicit Host(const char* selection, std::size_t max_bytes = std::size_t(1) << 30,
                  const Problem& problem = test::small_problem(), SinkMode mode = SinkMode::tiles)
        : plan(problem, parse_selection(selection, "test"), max_bytes, mode), memory(plan.bytes()) {
        plan.fill_unwritten(memory.data());
        sink = plan.sink(memory.data());
    }
    CapturedRun finish() const { return CapturedRun(plan, memory, Units(), Provenance(), {}); }

    CapturePlan plan;
    std::vector<std::byte> memory;
    Sink sink;
};

/// Plays one thread of a thread block: every stage, whole tiles with their padding.
void play_block(int batch, int head, int q_block, int thread, int threads TILESCOPE_HOST_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK(sink, batch, head, q_block);
    const TileId block = {batch, head, q_block, 0};
    const auto tile_data = [](Stage stage, const TileId& tile, int rows, int cols, int ld) {
        std::vector<float> data(std::size_t(rows * ld), -1.0f);
        for (int row = 0; row < rows; ++row) {
            for (int col = 0; col < cols; ++col) {
                data[std::size_t(row * ld + col)] = test::value_of(stage, tile, row, col);
            }
        }
        return data;
    };
    TILESCOPE_TILE(q, 99, tile_data(Stage::q, block, 4, 8, 11).data(), 11, thread, threads);
    for (int t = 0; t < 3; ++t) {
        const TileId tile = {batch, head, q_block, t};
        TILESCOPE_TILE(k, t, tile_data(Stage::k, tile, 5, 8, 8).data(), 8, thread, threads);
        TILESCOPE_TILE(v, t, tile_data(Stage::v, tile, 5, 7, 9).data(), 9, thread, threads);
        TILESCOPE_TILE(acc, t, tile_data(Stage::acc, tile, 4, 7, 7).data(), 7, thread, threads);
        for (int row = thread; row < 4; row += threads) {
            for (int col = 0; col < 5; ++col) {
                TILESCOPE_VALUE(s, t, row, col, test::value_of(Stage::s, tile, row, col));
                TILESCOPE_VALUE(p, t, row, col, test::value_of(Stage::p, tile, row, col));
            }
            TILESCOPE_VALUE(m, t, row, 0, test::value_of(Stage::m, tile, row, 0));
            TILESCOPE_VALUE(l, t, row, 0, test::value_of(Stage::l, tile, row, 0));
        }
    }
    TILESCOPE_TILE(o, -5, tile_data(Stage::o, block, 4, 7, 7).data(), 7, thread, threads);
    for (int row = thread; row < 4; row += threads) {
        TILESCOPE_VALUE(lse, 3, row, 0, test::value_of(Stage::lse, block, row, 0));
    }
}

void play_all_blocks(const Sink& sink, int thread, int threads) {
    for (int batch = 0; batch < 2; ++batch) {
        for (int head = 0; head < 6; ++head) {
            for (int q_block = 0; q_block < 3; ++q_block) {
                play_block(batch, head, q_block, thread, threads TILESCOPE_SINK_ARG(sink));
            }
        }
    }
}

TEST(Hook, PlacesEveryStage) {
    Host host("");
    play_all_blocks(host.sink, 0, 1);
    EXPECT_EQ(test::expect_played(host.finish(), host.plan), test::all_elements);
}

TEST(Hook, PlacesTheLanesOfL) {
    Problem problem = test::small_problem();
    problem.l_lanes = 4;
    Host host("stage=l", std::size_t(1) << 30, problem);
    const auto play = [](int q_block, int tile TILESCOPE_HOST_SINK_PARAM(sink)) {
        TILESCOPE_BLOCK(sink, 1, 5, q_block);
        for (int row = 0; row < 4; ++row) {
            for (int lane = 0; lane < 5; ++lane) TILESCOPE_VALUE(l, tile, row, lane, float(10 * row + lane));
        }
    };
    play(2, 1 TILESCOPE_SINK_ARG(host.sink));
    const CapturedRun run = host.finish();
    std::vector<float> values(16);
    ASSERT_TRUE(run.read_tile(Stage::l, {1, 5, 2, 1}, values));
    for (int i = 0; i < 16; ++i) {
        if (i < 8) {
            EXPECT_EQ(values[std::size_t(i)], float(10 * (i / 4) + i % 4));
        } else {
            EXPECT_TRUE(is_unwritten(values[std::size_t(i)])) << "rows 2 and 3 lie beyond seqlen_q";
        }
    }
    EXPECT_EQ(run.capture().stages[int(Stage::l)].elements_out_of_range, 4) << "there is no lane 4";
}

TEST(Hook, SharesTilesOutOverThreads) {
    for (const int threads : {2, 3, 32, 1000}) {
        Host host("");
        for (int thread = threads - 1; thread >= 0; --thread) play_all_blocks(host.sink, thread, threads);
        EXPECT_EQ(test::expect_played(host.finish(), host.plan), test::all_elements) << threads;
    }
}

TEST(Hook, ThreadsWriteAtOnce) {
    Host host("");
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 8; ++thread) {
        threads.emplace_back([&host, thread] { play_all_blocks(host.sink, thread, 8); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(test::expect_played(host.finish(), host.plan), test::all_elements);
}

TEST(Hook, WritingTheSameTwiceIsNoConflict) {
    Host host("");
    for (int repeat = 0; repeat < 2; ++repeat) play_all_blocks(host.sink, 0, 1);
    EXPECT_EQ(test::expect_played(host.finish(), host.plan), test::all_elements);
}

TEST(Hook, IgnoresWhatIsNotSelected) {
    Host host("batch=1:head=0,4:q_block=1-:kv_tile=0,2:stage=q,k,s");
    play_all_blocks(host.sink, 0, 1);
    // 2 heads; 6 of the queries, 8 of the keys.
    EXPECT_EQ(test::expect_played(host.finish(), host.plan), 2 * (6 * 8 + 2 * 8 * 8 + 6 * 8));
    const CapturedRun run = host.finish();
    for (const StageCapture& capture : run.capture().stages) EXPECT_EQ(capture.elements_dropped, 0);
}

TEST(Hook, CountsWhatHasNoRoom) {
    for (const int threads : {1, 5}) {
        Host host("stage=k,m", 256 + sizeof(SinkCounters) + 39 * 4 + 100 * 41 * 4);
        ASSERT_EQ(host.plan.capacity(Stage::k), 100);
        ASSERT_EQ(host.plan.capacity(Stage::m), 0);
        for (int thread = 0; thread < threads; ++thread) play_all_blocks(host.sink, thread, threads);
        const std::int64_t kept = test::expect_played(host.finish(), host.plan);
        const CapturedRun run = host.finish();
        EXPECT_EQ(run.capture().stages[int(Stage::k)].elements_dropped, 12 * 3 * 13 * 8 - kept);
        EXPECT_EQ(run.capture().stages[int(Stage::m)].elements_dropped, 12 * 3 * 10);
        EXPECT_EQ(run.capture().stages[int(Stage::k)].dropped.size(), 8u);
        EXPECT_EQ(run.capture().stages[int(Stage::m)].dropped.size(), 108u);
    }
}

TEST(Hook, CountsWhatIsOutOfRange) {
    Host host("stage=s,k,q");
    const auto write = [&host](int batch, int head, int q_block, int kv_tile, int row, int col) {
        TILESCOPE_BLOCK(host.sink, batch, head, q_block);
        TILESCOPE_VALUE(s, kv_tile, row, col, 1.0f);
    };
    const int huge = 2147483647;
    write(-1, 0, 0, 0, 0, 0);
    write(2, 0, 0, 0, 0, 0);
    write(0, 6, 0, 0, 0, 0);
    write(0, 0, 3, 0, 0, 0);
    write(0, 0, 0, 3, 0, 0);
    write(0, 0, 0, -1, 0, 0);
    write(0, 0, 0, 0, 4, 0);
    write(0, 0, 0, 0, -1, 0);
    write(0, 0, 0, 0, 0, 5);
    write(0, 0, 0, 0, 0, -1);
    write(huge, huge, huge, huge, huge, huge);
    const SinkLoss& outside = host.sink.counters->out_of_range[int(Stage::s)];
    EXPECT_EQ(outside.elements, 11u);
    EXPECT_EQ(std::to_array(outside.first), (std::array{-1, 0, 0, 0, 0, 0})) << "the first that was counted";

    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    const float* unread = nullptr;
    for (int thread = 0; thread < 3; ++thread) TILESCOPE_TILE(k, 3, unread, 8, thread, 3);
    EXPECT_EQ(host.sink.counters->out_of_range[int(Stage::k)].elements, 40u) << "a whole tile";
    TILESCOPE_TILE(q, 0, unread, 8, 0, 0);
    TILESCOPE_TILE(q, 0, unread, 8, -1, 32);
    EXPECT_EQ(host.sink.counters->out_of_range[int(Stage::q)].elements, 2u) << "no such thread";
    EXPECT_FALSE(host.finish().has_stage(Stage::s));
}

TEST(Hook, LocatesWhatIsOutOfRange) {
    Host host("stage=s,k,q");
    TILESCOPE_BLOCK(host.sink, 1, 5, 2);
    TILESCOPE_VALUE(s, 1, 3, 5, 1.0f);
    const float values[4] = {1, 2, 3, 4};
    TILESCOPE_FRAGMENT(k, 2, values, Columns{4, 6, 1});
    const float* unread = nullptr;
    TILESCOPE_ROWS(q, 0, 2, 5, unread, 8, 7, 32);
    const CapturedRun run = host.finish();
    const auto first = [&run](Stage stage) {
        return run.capture().stages[std::size_t(stage)].first_out_of_range.value();
    };
    EXPECT_EQ(first(Stage::s), (OutOfRange{{1, 5, 2, 1}, 3, 5}));
    EXPECT_EQ(first(Stage::k), (OutOfRange{{1, 5, 2, 2}, 4, 8})) << "two of four columns are there";
    EXPECT_EQ(first(Stage::q), (OutOfRange{{1, 5, 2, 0}, 2, 7})) << "the first of the rows, and the thread";
}

TEST(Hook, ReadsNothingOutsideTheTensor) {
    Host host("stage=k");
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    // The last KV tile has 3 keys: what a kernel owns there may end with them.
    const std::vector<float> keys(3 * 8, 1.0f);
    TILESCOPE_TILE(k, 2, keys.data(), 8, 0, 1);
    EXPECT_TRUE(host.finish().has_tile(Stage::k, {0, 0, 0, 2}));
    const float* unread = nullptr;
    Host nothing("stage=s");
    hook_tile(hook_block(nothing.sink, 0, 0, 0), Stage::k, 0, unread, 8, 0, 1);
}

TEST(Hook, CountsConflictsTileByTile) {
    Host host("stage=m,l", std::size_t(1) << 30, test::small_problem(), SinkMode::checked);
    TILESCOPE_BLOCK(host.sink, 1, 5, 2);
    for (const float value : {1.0f, 2.0f, 2.0f, 3.0f}) TILESCOPE_VALUE(m, 1, 0, 0, value);
    TILESCOPE_VALUE(m, 1, 1, 0, 0.0f);
    TILESCOPE_VALUE(m, 1, 1, 0, -0.0f);
    TILESCOPE_VALUE(m, 2, 0, 0, 1.0f);
    const CapturedRun run = host.finish();
    const auto& conflicts = run.capture().stages[int(Stage::m)].conflicts;
    ASSERT_EQ(conflicts.size(), 1u);
    EXPECT_EQ(conflicts[0].tile, (TileId{1, 5, 2, 1}));
    EXPECT_EQ(conflicts[0].elements, 3);
    EXPECT_TRUE(run.capture().stages[int(Stage::l)].conflicts.empty());
}

TEST(Hook, CountsEveryRaceThatDiffers) {
    Problem problem;
    problem.seqlen_q = problem.block_m = 256;
    problem.seqlen_kv = problem.block_n = 128;
    Host host("stage=s", std::size_t(1) << 20, problem, SinkMode::checked);
    const auto write_all = [&host](float value) {
        TILESCOPE_BLOCK(host.sink, 0, 0, 0);
        for (int row = 0; row < 256; ++row) {
            for (int col = 0; col < 128; ++col) TILESCOPE_VALUE(s, 0, row, col, value);
        }
    };
    std::thread first(write_all, 1.0f);
    std::thread second(write_all, 2.0f);
    first.join();
    second.join();
    const CapturedRun run = host.finish();
    ASSERT_EQ(run.capture().stages[int(Stage::s)].conflicts.size(), 1u);
    EXPECT_EQ(run.capture().stages[int(Stage::s)].conflicts[0].elements, 256 * 128);
}

TEST(Hook, KeepsNonFiniteValuesBitByBit) {
    Host host("stage=s");
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    const std::uint32_t bits[] = {0x7fc00000u, 0xffc00001u, 0x7f800000u, 0xff800000u, 0x80000000u};
    for (int col = 0; col < 5; ++col) TILESCOPE_VALUE(s, 0, 0, col, std::bit_cast<float>(bits[col]));
    TILESCOPE_VALUE(s, 0, 1, 0, std::bit_cast<float>(unwritten_bits));
    std::vector<float> values(20);
    ASSERT_TRUE(host.finish().read_tile(Stage::s, TileId(), values));
    for (std::size_t col = 0; col < 5; ++col) EXPECT_EQ(std::bit_cast<std::uint32_t>(values[col]), bits[col]);
    EXPECT_TRUE(std::isnan(values[5]) && !is_unwritten(values[5])) << "written, although with the marker";
}

TEST(Hook, TakesTypesOfTheKernelsOwn) {
    Host host("stage=p,l");
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    const std::vector<fixed_point::Half> tile(20, fixed_point::Half{5});
    TILESCOPE_TILE(p, 0, tile.data(), 5, 0, 1);
    TILESCOPE_VALUE(l, 0, 2, 0, fixed_point::Half{-3});
    const CapturedRun run = host.finish();
    std::vector<float> p(20);
    ASSERT_TRUE(run.read_tile(Stage::p, TileId(), p));
    EXPECT_EQ(p, std::vector<float>(20, 2.5f));
    std::vector<float> l(4);
    ASSERT_TRUE(run.read_tile(Stage::l, TileId(), l));
    EXPECT_EQ(l[2], -1.5f);
}

TEST(Hook, SinkThatCapturesNothingIsHarmless) {
    const Sink sink;
    play_block(0, 0, 0, 0, 1 TILESCOPE_SINK_ARG(sink));
}

TEST(Hook, StaysInsideIntForTheLongestQuery) {
    Problem problem;
    problem.seqlen_q = 2147483647;
    problem.block_m = 1 << 20;
    Host host("q_block=2047:stage=m", std::size_t(64) << 20, problem);
    TILESCOPE_BLOCK(host.sink, 0, 0, 2047);
    const int last = (1 << 20) - 1;
    TILESCOPE_VALUE(m, 0, last - 1, 0, 1.0f);
    TILESCOPE_VALUE(m, 0, last, 0, 2.0f);  // query 2^31 - 1 is the first one beyond the end
    std::vector<float> m(std::size_t(1) << 20);
    ASSERT_TRUE(host.finish().read_tile(Stage::m, {0, 0, 2047, 0}, m));
    EXPECT_EQ(m[std::size_t(last) - 1], 1.0f);
    EXPECT_TRUE(is_unwritten(m[std::size_t(last)]));
    EXPECT_EQ(host.sink.counters->out_of_range[int(Stage::m)].elements, 0u);
}

TEST(Hook, StaysInsideIntForTheLongestKeys) {
    Problem problem;
    problem.seqlen_kv = 2147483647;
    problem.block_n = 1 << 14;
    Host host("kv_tile=131071:stage=s,k", std::size_t(64) << 20, problem);
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    const std::vector<float> keys(std::size_t(1) << 14, 3.0f);
    TILESCOPE_TILE(s, 131071, keys.data(), 1 << 14, 0, 1);
    TILESCOPE_TILE(k, 131071, keys.data(), 1, 0, 1);
    const CapturedRun run = host.finish();
    for (const Stage stage : {Stage::s, Stage::k}) {
        std::vector<float> values(std::size_t(1) << 14);
        ASSERT_TRUE(run.read_tile(stage, {0, 0, 0, 131071}, values));
        EXPECT_EQ(values[(1 << 14) - 2], 3.0f);
        EXPECT_TRUE(is_unwritten(values[(1 << 14) - 1]));
    }
}

}  // namespace
}  // namespace tilescope
