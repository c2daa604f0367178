// How far a run came that did not complete, and that what it never wrote is not held against it.

#include "oracle/judge/reached.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 31;

/// 5 query blocks of 4 rows, 3 KV tiles of 4 keys, the last ones cut.
Problem five_blocks() {
    Problem problem;
    problem.seqlen_q = 18;
    problem.seqlen_kv = 11;
    problem.head_dim = problem.head_dim_v = 2;
    problem.block_m = problem.block_n = 4;
    return problem;
}

void write_tile(MemoryRecording& recording, Stage stage, const TileId& tile) {
    recording.set_tile(stage, tile,
                       std::vector<float>(std::size_t(tile_shape(recording.problem(), stage).elements()), 1));
}

/// The stages of KV tiles [first, last) of a query block.
void write_kv_tiles(MemoryRecording& recording, TileId tile, std::int64_t first, std::int64_t last) {
    for (tile.kv_tile = first; tile.kv_tile < last; ++tile.kv_tile) {
        for (const StageInfo& info : stages_of(recording.problem().direction)) {
            if (info.per_kv_tile && info.per_q_block) write_tile(recording, info.stage, tile);
        }
    }
}

/// Block 0 is done, 1 is at s of KV tile 1, 2 has nothing, 3 has its q, 4 all but an element of o.
MemoryRecording killed_run(const Units& units = {}) {
    MemoryRecording recording(five_blocks(), units);
    for (const std::int64_t q_block : {0, 4}) {
        write_kv_tiles(recording, {0, 0, q_block, 0}, 0, 3);
        write_tile(recording, Stage::o, {0, 0, q_block, 0});
    }
    write_tile(recording, Stage::lse, {});
    poke(recording, Stage::o, {0, 0, 4, 0}, 1, 0, unwritten);
    write_kv_tiles(recording, {0, 0, 1, 0}, 0, 1);
    write_tile(recording, Stage::k, {0, 0, 1, 1});
    write_tile(recording, Stage::s, {0, 0, 1, 1});
    poke(recording, Stage::s, {0, 0, 1, 1}, 2, 3, unwritten);
    write_tile(recording, Stage::q, {0, 0, 3, 0});
    CaptureSummary capture = everything_selected();
    capture.ended = ended_running;
    recording.set_capture(capture);
    return recording;
}

void expect_block(const RunReach& reached, std::size_t i, Reach reach, Stage stage, std::int64_t kv_tile,
                  bool whole) {
    SCOPED_TRACE("block " + std::to_string(i));
    ASSERT_LT(i, reached.blocks.size());
    const ReachedBlock& block = reached.blocks[i];
    EXPECT_EQ(block.reach, reach);
    if (reach == Reach::not_begun) return;
    EXPECT_EQ(stage_info(block.stage).name, stage_info(stage).name);
    EXPECT_EQ(block.kv_tile, kv_tile);
    EXPECT_EQ(block.whole, whole);
}

TEST(RunReach, NamesTheLastTileOfEachBlock) {
    const RunReach reached = reached_blocks(killed_run());
    EXPECT_EQ(reached.finishing, Stage::o);
    ASSERT_EQ(reached.blocks.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i)
        EXPECT_EQ(reached.blocks[i].q_block, (TileId{0, 0, std::int64_t(i), 0}));
    expect_block(reached, 0, Reach::finished, Stage::lse, 0, true);
    expect_block(reached, 1, Reach::under_way, Stage::s, 1, false);
    expect_block(reached, 2, Reach::not_begun, Stage::q, 0, false);
    expect_block(reached, 3, Reach::under_way, Stage::q, 0, true);
    expect_block(reached, 4, Reach::under_way, Stage::o, 0, false);
    EXPECT_EQ(reached.count(Reach::finished), 1);
    EXPECT_EQ(reached.count(Reach::under_way), 3);
    EXPECT_EQ(reached.count(Reach::not_begun), 1);
}

TEST(RunReach, TextNamesTheFurthestBehindFirst) {
    EXPECT_EQ(to_text(reached_blocks(killed_run())),
              "reached: 1 of 5 query blocks finished o, 3 under way, 1 not begun\n"
              "  batch 0, head 0, q block 3: the whole of q\n"
              "  batch 0, head 0, q block 1: part of s of KV tile 1\n"
              "  batch 0, head 0, q block 4: part of o\n");
}

TEST(RunReach, TextIsShortForManyBlocks) {
    Problem problem = five_blocks();
    problem.heads = problem.heads_kv = 4;
    MemoryRecording recording(problem);
    for (std::int64_t head = 0; head < 4; ++head) {
        for (std::int64_t q_block = 0; q_block < 5; ++q_block)
            write_kv_tiles(recording, {0, head, q_block, 0}, 0, head == 3 ? 1 : 2);
    }
    const std::string text = to_text(reached_blocks(recording));
    EXPECT_EQ(std::ranges::count(text, '\n'), 10);
    EXPECT_EQ(
        text.find("reached: 0 of 20 query blocks finished acc of their last KV tile, 20 under way, 0 not"),
        0u);
    EXPECT_NE(text.find("\n  batch 0, head 3, q block 0: the whole of acc of KV tile 0\n"),
              std::string::npos);
    EXPECT_NE(text.find("q block 2: the whole of acc of KV tile 1\n  and 12 further on\n"), std::string::npos)
        << text;
}

// A kernel whose epilogue has no hooks.
TEST(RunReach, WithoutOutputsTheLastKvTileCounts) {
    const MemoryRecording recording = copy_of(
        killed_run(), [](Stage stage, const TileId&) { return stage != Stage::o && stage != Stage::lse; });
    const RunReach reached = reached_blocks(recording);
    EXPECT_EQ(reached.finishing, Stage::acc);
    expect_block(reached, 0, Reach::finished, Stage::acc, 2, true);
    expect_block(reached, 1, Reach::under_way, Stage::s, 1, false);
    expect_block(reached, 4, Reach::finished, Stage::acc, 2, true);
}

TEST(RunReach, OnlyWhatWasAskedForCounts) {
    const std::string text = "q_block=1-2:kv_tile=1-2:stage=s";
    MemoryRecording recording(five_blocks());
    write_tile(recording, Stage::s, {0, 0, 1, 1});
    write_tile(recording, Stage::s, {0, 0, 1, 2});
    write_tile(recording, Stage::s, {0, 0, 2, 1});
    CaptureSummary capture;
    capture.selection = parse_selection(text, "test");
    recording.set_capture(capture);
    const RunReach reached = reached_blocks(recording);
    EXPECT_EQ(reached.finishing, Stage::s);
    ASSERT_EQ(reached.blocks.size(), 2u);
    expect_block(reached, 0, Reach::finished, Stage::s, 2, true);
    expect_block(reached, 1, Reach::under_way, Stage::s, 1, true);
}

// Row i sees keys j <= i: block 0 is done with KV tile 0, block 1 with KV tile 1.
TEST(RunReach, TilesThatTheMaskHidesAreNotWaitedFor) {
    Problem problem = five_blocks();
    problem.mask = Mask::causal;
    problem.causal_alignment = CausalAlignment::top_left;
    MemoryRecording recording(problem);
    for (std::int64_t q_block = 0; q_block < 5; ++q_block)
        write_kv_tiles(recording, {0, 0, q_block, 0}, 0, 2);
    const RunReach reached = reached_blocks(recording);
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(reached.blocks[i].reach, i < 2 ? Reach::finished : Reach::under_way) << i;
    }
}

TEST(RunReach, ReverseOrderEndsAtTheFirstKvTile) {
    Units units;
    units.kv_order = KvOrder::reverse;
    MemoryRecording recording(five_blocks(), units);
    write_kv_tiles(recording, {0, 0, 0, 0}, 0, 3);
    write_kv_tiles(recording, {0, 0, 1, 0}, 1, 3);
    write_kv_tiles(recording, {0, 0, 2, 0}, 2, 3);
    const RunReach reached = reached_blocks(recording);
    expect_block(reached, 0, Reach::finished, Stage::acc, 0, true);
    expect_block(reached, 1, Reach::under_way, Stage::acc, 1, true);
    const std::string text = to_text(reached);
    EXPECT_LT(text.find("q block 2"), text.find("q block 1")) << text;
}

TEST(RunReach, BlocksBeyondTheLengthOfAnEntryAreNone) {
    Problem problem = five_blocks();
    problem.batch = 2;
    MemoryRecording recording(problem);
    SideInputs side;
    side.seqlens_q = {18, 5};
    recording.set_side_inputs(side);
    // One row of block 1 is inside the entry: the others need not be written.
    recording.set_tile(Stage::o, {1, 0, 1, 0},
                       {1, 1, unwritten, unwritten, unwritten, unwritten, unwritten, unwritten});
    const RunReach reached = reached_blocks(recording);
    ASSERT_EQ(reached.blocks.size(), 5u + 2u);
    expect_block(reached, 6, Reach::finished, Stage::o, 0, true);
}

TEST(RunReach, BackwardBlocksFinishWithDq) {
    Problem problem = five_blocks();
    problem.direction = Direction::backward;
    MemoryRecording recording(problem);
    write_kv_tiles(recording, {0, 0, 0, 0}, 0, 3);
    write_tile(recording, Stage::dq, {});
    write_kv_tiles(recording, {0, 0, 1, 0}, 0, 1);
    write_tile(recording, Stage::delta, {0, 0, 2, 0});
    const RunReach reached = reached_blocks(recording);
    EXPECT_EQ(reached.finishing, Stage::dq);
    expect_block(reached, 0, Reach::finished, Stage::dq, 0, true);
    expect_block(reached, 1, Reach::under_way, Stage::ds, 0, true);
    expect_block(reached, 2, Reach::under_way, Stage::delta, 0, true);
    expect_block(reached, 3, Reach::not_begun, Stage::q, 0, false);
}

/// A healthy run of which the last query block of a head stops within s of KV tile 3.
MemoryRecording stopped_run(const std::string& ended) {
    const Problem problem = small_problem();
    const MemoryRecording run = recorded(make_call(problem, seed, {}, InputKind::ramped_k));
    const TileId last{1, 3, 2, 3};
    MemoryRecording stopped = copy_of(run, [&](Stage stage, const TileId& tile) {
        if (tile.batch != 1 || tile.head != 3 || tile.q_block != 2 || stage == Stage::q) return true;
        return tile.kv_tile < 3 && stage_info(stage).per_kv_tile;
    });
    std::vector<float> s(std::size_t(tile_shape(problem, Stage::s).elements()), unwritten);
    s[0] = peek(run, Stage::s, last, 0, 0);
    stopped.set_tile(Stage::s, last, s);
    CaptureSummary capture = everything_selected();
    capture.ended = ended;
    stopped.set_capture(capture);
    return stopped;
}

TEST(UnfinishedRun, WhatItLeftIsReportedWithoutAVerdict) {
    const MemoryRecording stopped = stopped_run(ended_running);
    try {
        judged(stopped);
        FAIL() << "judged";
    } catch (const UnfinishedRun& unfinished) {
        const Report& report = unfinished.report();
        EXPECT_FALSE(report.guilty);
        EXPECT_EQ(report.stage(Stage::s).tally.unwritten, 8 * 16 - 1) << "of 8 rows and 16 keys";
        EXPECT_GT(report.compared(), 0);
        ASSERT_TRUE(report.reached);
        EXPECT_EQ(report.reached->count(Reach::finished), 23);
        expect_block(*report.reached, 23, Reach::under_way, Stage::s, 3, false);
        EXPECT_EQ(verdict_line(report), "unjudged: " + std::string(unfinished.what()));
        EXPECT_NE(std::string(unfinished.what())
                      .find(": the run did not end: killed, or still running, and what "
                            "it left matches; "),
                  std::string::npos);
        const std::string text = to_text(report);
        EXPECT_NE(text.find("\nreached: 23 of 24 query blocks finished o, 1 under way, 0 not begun\n"
                            "  batch 1, head 3, q block 2: part of s of KV tile 3\n"),
                  std::string::npos)
            << text;
        EXPECT_NE(text.find("\nwarning: the run did not end: killed, or still running\n"), std::string::npos);
        EXPECT_LE(std::ranges::count(text, '\n'), 50);
    }
}

TEST(UnfinishedRun, WhatItLeftIsReportedAsJson) {
    try {
        judged(stopped_run("an illegal memory access"));
        FAIL() << "judged";
    } catch (const UnfinishedRun& unfinished) {
        const nlohmann::json json = nlohmann::json::parse(to_json(unfinished.report()));
        EXPECT_EQ(json["verdict"], "unjudged");
        EXPECT_EQ(json["reason"], unfinished.what());
        EXPECT_EQ(json["ended"], "an illegal memory access");
        const nlohmann::json& reached = json["reached"];
        EXPECT_EQ(reached["finishing_stage"], "o");
        EXPECT_EQ(reached["finished"], 23);
        EXPECT_EQ(reached["under_way"], 1);
        EXPECT_EQ(reached["not_begun"], 0);
        ASSERT_EQ(reached["blocks"].size(), 24u);
        const nlohmann::json expected = {
            {"batch", 1},           {"head", 3},    {"q_block", 2}, {"whole", false},
            {"state", "under_way"}, {"stage", "s"}, {"kv_tile", 3}};
        EXPECT_EQ(reached["blocks"][23], expected);
        EXPECT_EQ(reached["blocks"][0]["kv_tile"], nullptr);
    }
}

TEST(UnfinishedRun, WhatItWroteWrongIsFound) {
    MemoryRecording stopped = stopped_run(ended_running);
    poke(stopped, Stage::s, {1, 3, 2, 3}, 0, 0, 1e6f);
    const Report report = judged(stopped);
    EXPECT_EQ(report.guilty, Stage::s);
    EXPECT_EQ(report.stage(Stage::s).tally.outside, 1);
    ASSERT_TRUE(report.reached);
    EXPECT_EQ(nlohmann::json::parse(to_json(report))["verdict"], "diverged");
}

TEST(UnfinishedRun, CompletedRunsOweEveryElement) {
    const Report report = judged(stopped_run("completed"));
    EXPECT_EQ(report.guilty, Stage::k) << "of KV tile 3";
    EXPECT_GE(report.stage(Stage::s).tally.outside, 8 * 16 - 1);
    EXPECT_FALSE(report.reached);
    EXPECT_TRUE(nlohmann::json::parse(to_json(report))["reached"].is_null());
}

TEST(UnfinishedRun, ComparesWithAnotherByWhatBothWrote) {
    const MemoryRecording stopped = stopped_run(ended_running);
    const Problem problem = small_problem();
    const MemoryRecording whole = recorded(make_call(problem, seed, {}, InputKind::ramped_k));
    EXPECT_THROW(judged(stopped, whole), UnfinishedRun);
    EXPECT_THROW(judged(whole, stopped), UnfinishedRun);
}

TEST(UnfinishedRun, KilledBeforeItsFirstTile) {
    const MemoryRecording nothing =
        copy_of(stopped_run(ended_running), [](Stage, const TileId&) { return false; });
    try {
        judged(nothing);
        FAIL() << "judged";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("no tile was captured, and the run did not end: killed"),
                  std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace tilescope::test
