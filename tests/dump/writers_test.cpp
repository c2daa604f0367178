// SinkMode::writers: which thread wrote an element first, and how many writes came.

#define DEBUG_DUMP
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <thread>
#include <vector>

#include "dump/hook.h"
#include "dump/recording/captured_run.h"
#include "tests/dump/small_problem.h"

namespace tilescope {
namespace {

constexpr TileId last_tile = {1, 5, 2, 2};  ///< 2 rows and 3 keys of it are inside the tensor

struct WritersHost {
    explicit WritersHost(const char* selection, const Problem& problem = test::small_problem(),
                         SinkMode mode = SinkMode::writers)
        : plan(problem, parse_selection(selection, "test"), std::size_t(1) << 26, mode),
          memory(plan.bytes()) {
        plan.fill_unwritten(memory.data());
        sink = plan.sink(memory.data());
    }
    CapturedRun finish() const { return CapturedRun(plan, memory, Units(), Provenance(), {}); }
    std::vector<ElementWriter> writers(Stage stage, const TileId& tile) const {
        std::vector<ElementWriter> out(std::size_t(tile_shape(plan.problem(), stage).elements()));
        EXPECT_TRUE(finish().read_writers(stage, tile, out));
        return out;
    }

    CapturePlan plan;
    std::vector<std::byte> memory;
    Sink sink;
};

void write_s(const Sink& sink, const TileId& tile, int thread, int row, int col, float value) {
    hook_cpu_thread = thread;
    TILESCOPE_BLOCK(sink, tile.batch, tile.head, tile.q_block);
    TILESCOPE_VALUE(s, tile.kv_tile, row, col, value);
}

TEST(Writers, FirstThreadAndNumberOfWrites) {
    WritersHost host("stage=s,m");
    write_s(host.sink, {}, 7, 1, 2, 1.0f);
    write_s(host.sink, {}, 1023, 1, 3, 1.0f);
    for (int i = 0; i < 3; ++i) write_s(host.sink, {}, 0, 2, 0, 1.0f);
    for (const int thread : {5, 5, 6, 5}) write_s(host.sink, {}, thread, 3, 4, 1.0f);

    const std::vector<ElementWriter> writers = host.writers(Stage::s, {});
    EXPECT_EQ(writers[1 * 5 + 2], (ElementWriter{1, 7, false}));
    EXPECT_EQ(writers[1 * 5 + 3], (ElementWriter{1, 1023, false}));
    EXPECT_EQ(writers[2 * 5 + 0], (ElementWriter{3, 0, false}));
    EXPECT_EQ(writers[3 * 5 + 4], (ElementWriter{4, 5, true}));
    EXPECT_EQ(std::ranges::count(writers, ElementWriter()), 4 * 5 - 4);
    const CapturedRun run = host.finish();
    EXPECT_TRUE(run.has_writers(Stage::s));
    EXPECT_FALSE(run.has_writers(Stage::m)) << "no hook wrote it";
    EXPECT_FALSE(run.has_writers(Stage::p)) << "not selected";
    std::vector<ElementWriter> untouched(20, ElementWriter{9, 9, true});
    EXPECT_FALSE(run.read_writers(Stage::s, {0, 0, 0, 1}, untouched));
    EXPECT_FALSE(run.read_writers(Stage::s, {0, 0, 3, 0}, untouched));
    EXPECT_EQ(untouched, std::vector(20, ElementWriter{9, 9, true}));
    EXPECT_TRUE(run.capture().stages[int(Stage::s)].conflicts.empty()) << "all writes had the same bits";
}

TEST(Writers, CountsConflictsAsTheCheckedModeDoes) {
    WritersHost host("stage=s");
    for (const float value : {1.0f, 2.0f, 2.0f, 3.0f}) write_s(host.sink, last_tile, 4, 1, 1, value);
    const CapturedRun run = host.finish();
    const auto& conflicts = run.capture().stages[int(Stage::s)].conflicts;
    ASSERT_EQ(conflicts.size(), 1u);
    EXPECT_EQ(conflicts[0].tile, last_tile);
    EXPECT_EQ(conflicts[0].elements, 2);
    EXPECT_EQ(host.writers(Stage::s, last_tile)[1 * 5 + 1], (ElementWriter{4, 4, false}));
    std::vector<float> values(20);
    ASSERT_TRUE(run.read_tile(Stage::s, last_tile, values));
    EXPECT_EQ(values[1 * 5 + 1], 3.0f);
}

TEST(Writers, TheNumberOfWritesSaturates) {
    WritersHost host("stage=s");
    for (int i = 0; i < 65535; ++i) write_s(host.sink, {}, 3, 0, 0, 1.0f);
    EXPECT_EQ(host.writers(Stage::s, {})[0], (ElementWriter{65535, 3, false}));
    for (int i = 0; i < 5; ++i) write_s(host.sink, {}, 3, 0, 0, 1.0f);
    EXPECT_EQ(host.writers(Stage::s, {})[0], (ElementWriter{65535, 3, false}));
    write_s(host.sink, {}, 4, 0, 0, 1.0f);
    EXPECT_EQ(host.writers(Stage::s, {})[0], (ElementWriter{65535, 3, true}));
}

TEST(Writers, PaddingHasNone) {
    WritersHost host("stage=k,s");
    const std::vector<float> tile(5 * 8, 1.0f);
    for (int thread = 0; thread < 32; ++thread) {
        hook_cpu_thread = thread;
        TILESCOPE_BLOCK(host.sink, 1, 5, 2);
        TILESCOPE_TILE(k, 2, tile.data(), 8, thread, 32);
        TILESCOPE_TILE(s, 2, tile.data(), 5, thread, 32);
        TILESCOPE_VALUE(s, 2, 2, 0, 1.0f);
        TILESCOPE_VALUE(s, 2, 0, 5, 1.0f);
    }
    const std::vector<ElementWriter> k = host.writers(Stage::k, last_tile);
    for (int i = 0; i < 5 * 8; ++i) {
        const bool inside = i / 8 < 3;
        EXPECT_EQ(k[std::size_t(i)],
                  inside ? (ElementWriter{1, std::uint16_t(i % 32), false}) : ElementWriter())
            << i;
    }
    const std::vector<ElementWriter> s = host.writers(Stage::s, last_tile);
    for (int i = 0; i < 4 * 5; ++i) {
        const bool inside = i / 5 < 2 && i % 5 < 3;
        EXPECT_EQ(s[std::size_t(i)].writes, inside ? 1 : 0) << i;
    }
}

TEST(Writers, CopiesAreWrites) {
    WritersHost host("stage=m");
    for (int lane = 0; lane < 8; ++lane) {
        hook_cpu_thread = 16 + lane;
        TILESCOPE_BLOCK(host.sink, 0, 0, 0);
        TILESCOPE_REPLICATED(m, 0, 2, 0, 1.0f);
    }
    EXPECT_EQ(host.writers(Stage::m, {})[2], (ElementWriter{8, 16, true}));
    EXPECT_TRUE(host.finish().capture().stages[int(Stage::m)].conflicts.empty());
}

TEST(Writers, OneOfTheThreadsThatRaceIsTheFirst) {
    Problem problem;
    problem.seqlen_q = problem.block_m = 256;
    problem.seqlen_kv = problem.block_n = 128;
    WritersHost host("stage=s", problem);
    constexpr int threads = 4;
    std::vector<std::thread> racing;
    for (int thread = 0; thread < threads; ++thread) {
        racing.emplace_back([&host, thread] {
            for (int i = 0; i < 256 * 128; ++i) {
                write_s(host.sink, {}, 100 + thread, i / 128, i % 128, float(thread));
            }
        });
    }
    for (std::thread& thread : racing) thread.join();
    for (const ElementWriter& writer : host.writers(Stage::s, {})) {
        ASSERT_EQ(writer.writes, threads);
        ASSERT_TRUE(writer.several_threads);
        ASSERT_GE(writer.first_thread, 100);
        ASSERT_LT(writer.first_thread, 100 + threads);
    }
    const CapturedRun run = host.finish();
    ASSERT_EQ(run.capture().stages[int(Stage::s)].conflicts.size(), 1u);
    EXPECT_EQ(run.capture().stages[int(Stage::s)].conflicts[0].elements, (threads - 1) * 256 * 128);
}

TEST(Writers, OtherModesKeepNone) {
    for (const SinkMode mode : {SinkMode::tiles, SinkMode::checked}) {
        WritersHost host("stage=s", test::small_problem(), mode);
        EXPECT_EQ(host.sink.writers, 0u);
        write_s(host.sink, {}, 7, 1, 2, 1.0f);
        const CapturedRun run = host.finish();
        EXPECT_TRUE(run.has_stage(Stage::s));
        EXPECT_FALSE(run.has_writers(Stage::s));
        std::vector<ElementWriter> untouched(20);
        EXPECT_FALSE(run.read_writers(Stage::s, {}, untouched));
    }
}

/// Every element of a stage's tiles with room is at its place among the writers: told by a word of its own.
TEST(Writers, LieBehindTheTilesInTheirOrder) {
    const Problem problem = test::small_problem();
    const CapturePlan tiles(problem, {}, std::size_t(1) << 26, SinkMode::checked);
    const CapturePlan plan(problem, {}, std::size_t(1) << 26, SinkMode::writers);
    const std::size_t tile_bytes = tiles.bytes() - tiles.head_bytes();
    EXPECT_EQ(plan.head_bytes(), tiles.head_bytes());
    EXPECT_EQ(plan.bytes(), tiles.bytes() + tile_bytes);
    EXPECT_EQ(plan.sink(nullptr).writers, tile_bytes / 4);
    for (const StageInfo& info : stages_of(problem)) {
        for (std::int64_t slot = 0; slot < plan.capacity(info.stage); ++slot) {
            EXPECT_EQ(plan.tile_offset(info.stage, slot), tiles.tile_offset(info.stage, slot));
            EXPECT_EQ(plan.writers_offset(info.stage, slot),
                      tiles.tile_offset(info.stage, slot) + tile_bytes);
        }
    }
}

TEST(Writers, TakeTheirRoomFromTheTiles) {
    const Problem problem = test::small_problem();
    // A tile of k has 40 elements; with its writers and its conflict counter it takes 81 words.
    const std::size_t tables = sizeof(SinkCounters) + 39 * 4 + 256;
    const Selection k = parse_selection("stage=k", "test");
    for (const std::int64_t room : {1, 7, 100}) {
        for (const std::size_t missing : {0, 1}) {
            const std::size_t limit = tables + std::size_t(room) * 81 * 4 - missing;
            const CapturePlan plan(problem, k, limit, SinkMode::writers);
            EXPECT_EQ(plan.capacity(Stage::k), room - std::int64_t(missing));
            EXPECT_LE(plan.bytes(), limit);
        }
    }
}

}  // namespace
}  // namespace tilescope
