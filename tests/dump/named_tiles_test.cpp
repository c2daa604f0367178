// Tiles that a problem names: their shapes, hooks, selection and comparison of runs.

#define DEBUG_DUMP
#include <gtest/gtest.h>

#include <bit>
#include <thread>

#include "dump/recording/capture_plan.h"
#include "dump/recording/captured_run.h"
#include "dump/recording/run_difference.h"
#include "dump/schema/error.h"
#include "tests/dump/named_run.h"

namespace tilescope::test {
namespace {

using Dims = std::vector<std::int64_t>;

/// B=2 H=6 Hkv=3 Sq=10 Skv=13, blocks 4 x 5: 3 query blocks, 3 KV tiles.
TEST(NamedTiles, DatasetsFollowTheAxes) {
    struct Row {
        NamedTile tile;
        Dims dims;
        Dims chunk;
        Dims last_chunk;
        TileShape last_extent;
    };
    const Row rows[] = {
        {{.name = "row_value"}, {2, 6, 3, 10}, {1, 1, 1, 4}, {1, 5, 2, 2}, {2, 1}},
        {{.name = "lanes", .col_size = 3}, {2, 6, 3, 10, 3}, {1, 1, 1, 4, 3}, {1, 5, 2, 2, 0}, {2, 3}},
        {{.name = "per_row", .per_kv_tile = false}, {2, 6, 10}, {1, 1, 4}, {1, 5, 2}, {2, 1}},
        {{.name = "like_s", .cols = Axis::key}, {2, 6, 10, 13}, {1, 1, 4, 5}, {1, 5, 2, 2}, {2, 3}},
        {{.name = "turned", .rows = Axis::key, .cols = Axis::query},
         {2, 6, 13, 10},
         {1, 1, 5, 4},
         {1, 5, 2, 2},
         {3, 2}},
        {{.name = "constant", .rows = Axis::unit}, {2, 6, 3, 3, 1}, {1, 1, 1, 1, 1}, {1, 5, 2, 2, 0}, {1, 1}},
        {{.name = "free", .rows = Axis::unit, .cols = Axis::unit, .row_size = 4, .col_size = 5},
         {2, 6, 3, 3, 4, 5},
         {1, 1, 1, 1, 4, 5},
         {1, 5, 2, 2, 0, 0},
         {4, 5}},
        {{.name = "of_keys", .rows = Axis::key, .cols = Axis::feature, .col_size = 6, .per_q_block = false},
         {2, 3, 13, 6},
         {1, 1, 5, 6},
         {1, 2, 2, 0},
         {3, 6}},
        {{.name = "of_head",
          .rows = Axis::feature,
          .cols = Axis::feature,
          .row_size = 8,
          .col_size = 7,
          .per_q_block = false,
          .per_kv_tile = false},
         {2, 3, 8, 7},
         {1, 1, 8, 7},
         {1, 2, 0, 0},
         {8, 7}},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.tile.name);
        Problem problem = small_problem();
        problem.named_tiles = {row.tile};
        EXPECT_NO_THROW(validate(problem, "test"));
        EXPECT_EQ(dataset_of(stage_info(problem, Stage::named0)), "/tiles/" + row.tile.name);
        EXPECT_EQ(dataset_shape(problem, Stage::named0).dims, row.dims);
        EXPECT_EQ(dataset_shape(problem, Stage::named0).chunk, row.chunk);
        const std::int64_t count = tile_count(problem, Stage::named0);
        const TileId last = tile_at(problem, Stage::named0, count - 1);
        EXPECT_EQ(chunk_index(problem, Stage::named0, last), row.last_chunk);
        EXPECT_EQ(tile_extent(problem, Stage::named0, last), row.last_extent);
        EXPECT_EQ(tile_count(problem, Stage::named1), 0);
    }
}

TEST(NamedTiles, WrongDeclarationsAreRefused) {
    struct Row {
        std::vector<NamedTile> tiles;
        const char* words;
    };
    const NamedTile fine{.name = "fine"};
    const Row rows[] = {
        {{{.name = ""}}, "has no valid name"},
        {{{.name = "Rescale"}}, "has no valid name"},
        {{{.name = "9a"}}, "has no valid name"},
        {{{.name = "../q"}}, "has no valid name"},
        {{{.name = "a\nb"}}, "'a?b' has no valid name"},
        {{{.name = std::string(33, 'a')}}, "has no valid name"},
        {{{.name = "acc"}}, "has the name of a stage"},
        {{{.name = "sink"}}, "has the name of something else under /capture"},
        {{{.name = "writers"}}, "has the name of something else under /capture"},
        {{fine, fine}, "is declared twice"},
        {{{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}, {.name = "e"}}, "5 named tiles"},
        {{{.name = "a", .row_size = 2}}, "row_size of 2 for an axis that the problem sizes"},
        {{{.name = "a", .col_size = 0}}, "col_size of 0, not between"},
        {{{.name = "a", .cols = Axis::query}}, "walks along the same axis"},
        {{{.name = "a", .per_q_block = false}}, "has no query block"},
        {{{.name = "a", .cols = Axis::key, .per_kv_tile = false}}, "has no KV tile"},
        {{{.name = "a", .rows = Axis::unit, .cols = Axis::unit, .row_size = 1 << 20, .col_size = 1 << 20}},
         "the sizes ask for"},
    };
    for (const Row& row : rows) {
        Problem problem = small_problem();
        problem.named_tiles = row.tiles;
        try {
            validate(problem, "test");
            ADD_FAILURE() << "not refused: " << row.words;
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find(row.words), std::string::npos) << error.what();
        }
    }
    Problem problem = small_problem();
    problem.named_tiles = {{.name = std::string(32, 'a')}, {.name = "b_2"}, fine, {.name = "d"}};
    EXPECT_NO_THROW(validate(problem, "test"));
}

struct Host {
    explicit Host(const char* text = "", std::size_t max_bytes = std::size_t(1) << 30)
        : selection(parse_selection(text, "test", named_problem().named_tiles)),
          plan(named_problem(), selection, max_bytes),
          memory(plan.bytes()) {
        plan.fill_unwritten(memory.data());
        sink = plan.sink(memory.data());
    }
    void play(int thread, int threads) const {
        for (std::int64_t i = 0; i < 2 * 6 * 3; ++i)
            play_named_block({i / 18, i / 3 % 6, i % 3, 0}, thread, threads TILESCOPE_SINK_ARG(sink));
        for (std::int64_t i = 0; i < 2 * 3; ++i)
            play_named_head({i / 3, i % 3, 0, 0}, thread, threads TILESCOPE_SINK_ARG(sink));
    }
    CapturedRun finish() const { return CapturedRun(plan, memory, Units(), Provenance(), {}); }

    Selection selection;
    CapturePlan plan;
    std::vector<std::byte> memory;
    Sink sink;
};

TEST(NamedTiles, HooksOfManyThreadsPlaceThem) {
    const Host host;
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 7; ++thread) threads.emplace_back([&, thread] { host.play(thread, 7); });
    threads.clear();
    const CapturedRun run = host.finish();
    EXPECT_EQ(expect_named(run, host.selection), named_elements);
    for (const StageCapture& stage : run.capture().stages) {
        EXPECT_TRUE(stage.conflicts.empty());
        EXPECT_EQ(stage.elements_out_of_range, 0);
    }
}

TEST(NamedTiles, AreSelectedByName) {
    const Host one("stage=keep");
    one.play(0, 1);
    EXPECT_EQ(expect_named(one.finish(), one.selection), 12 * 10 * 13);
    EXPECT_EQ(to_string(one.selection, named_problem().named_tiles), "stage=keep");

    const Host part("batch=1:head=2:kv_tile=1:stage=rescale,mean_k");
    part.play(0, 1);
    // A row value of each of 10 rows; head 2 reads KV head 1, 5 keys of 6 features.
    EXPECT_EQ(expect_named(part.finish(), part.selection), 10 + 5 * 6);

    const Host none("stage=s");
    none.play(0, 1);
    EXPECT_EQ(expect_named(none.finish(), none.selection), 0);
}

TEST(NamedTiles, OnlyDeclaredNamesCanBeSelected) {
    try {
        parse_selection("stage=rescal", "--select", named_problem().named_tiles);
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("dv, rescale, keep, block_max, mean_k"), std::string::npos)
            << error.what();
    }
    EXPECT_THROW(parse_selection("stage=rescale", "--select"), Error);
}

TEST(NamedTiles, WhatIsOutsideIsCountedAndWhatHasNoRoomIsListed) {
    const Host host("stage=rescale");
    const auto write = [&](int batch, int tile, int row, int col TILESCOPE_HOST_SINK_PARAM(sink)) {
        TILESCOPE_BLOCK(sink, batch, 0, 0);
        TILESCOPE_VALUE(rescale, tile, row, col, 1.0f);
        TILESCOPE_VALUE(keep, tile, row, col, 1.0f);
    };
    write(0, 0, 4, 0 TILESCOPE_SINK_ARG(host.sink));
    write(0, 0, 0, 1 TILESCOPE_SINK_ARG(host.sink));
    write(2, 0, 0, 0 TILESCOPE_SINK_ARG(host.sink));
    write(0, 3, 0, 0 TILESCOPE_SINK_ARG(host.sink));
    const CapturedRun run = host.finish();
    EXPECT_EQ(run.capture().stages[int(Stage::named0)].elements_out_of_range, 4);
    EXPECT_EQ(run.capture().stages[int(Stage::named1)].elements_out_of_range, 0);
    EXPECT_FALSE(run.has_stage(Stage::named0));

    // The tables take all but a few tiles of 4 rows.
    const Host small("stage=rescale", sizeof(SinkCounters::hooks) + 2000);
    small.play(0, 1);
    const CapturedRun cut = small.finish();
    const StageCapture& rescale = cut.capture().stages[int(Stage::named0)];
    const std::int64_t kept = small.plan.capacity(Stage::named0);
    ASSERT_LT(kept, 108);
    EXPECT_EQ(std::ssize(rescale.dropped), 108 - kept);
}

TEST(NamedTiles, RunsThatDifferInOneBitAreFound) {
    const Host first;
    Host second;
    first.play(0, 1);
    second.play(0, 1);
    EXPECT_EQ(first_changed(compare_runs(first.finish(), second.finish())), nullptr);
    EXPECT_EQ(count_compared(compare_runs(first.finish(), second.finish())), named_elements);

    // Tile 1 of batch 1, head 4, query block 2: row 9 of the tensor.
    const TileId tile = {1, 4, 2, 1};
    const std::int64_t slot = second.plan.tile_slot(Stage::named0, tile);
    std::uint32_t& word = second.sink.stages[int(Stage::named0)].words[slot * 4 + 1];
    word ^= 1u;
    const std::vector<StageDifference> stages = compare_runs(first.finish(), second.finish());
    const StageDifference* change = first_changed(stages);
    ASSERT_NE(change, nullptr);
    EXPECT_EQ(count_changed(stages), 1);
    EXPECT_EQ(change->stage, Stage::named0);
    EXPECT_EQ(change->first->tile, tile);
    EXPECT_EQ(change->first->row, 9);
    EXPECT_EQ(change->first->col, 0);
    EXPECT_EQ(change->first->first_run, value_of(Stage::named0, tile, 1, 0));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(change->first->second_run), word);
}

TEST(NamedTiles, StandBetweenTheStagesAndTheOutputs) {
    EXPECT_TRUE(comes_before(Stage::acc, Stage::named0));
    EXPECT_TRUE(comes_before(Stage::named0, Stage::named1));
    EXPECT_TRUE(comes_before(Stage::named3, Stage::o));
    EXPECT_FALSE(comes_before(Stage::lse, Stage::named0));
}

}  // namespace
}  // namespace tilescope::test
