// What no row sees, and what a row does not see, a kernel may leave out.

#include <gtest/gtest.h>

#include "oracle/judge.h"
#include "oracle/judge/reached.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"
#include "tests/oracle/unseen_rows.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 12;

MemoryRecording healthy_run(const Problem& problem) {
    return recorded(make_call(problem, seed, {}, InputKind::ramped_k));
}

TEST(HiddenParts, HiddenTilesMayBeSkipped) {
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = problem.seqlen_q;
    for (const bool skips : {true, false}) {
        Arithmetic arithmetic;
        arithmetic.skips_hidden_tiles = skips;
        MemoryRecording run = recorded(make_call(problem, seed, arithmetic));
        run.set_capture(everything_selected());
        EXPECT_EQ(run.has_tile(Stage::s, {0, 0, 0, 2}), !skips);
        EXPECT_TRUE(matches(run));
    }
}

/// Arrays that were filled with the unwritten pattern and then written whole hold every tile.
TEST(HiddenParts, HiddenTilesThatNobodyWroteCountAsNotRecorded) {
    for (const Mask mask : {Mask::causal, Mask::none}) {
        Problem problem = small_problem(mask);
        problem.window_left = 20;
        const MemoryRecording run = healthy_run(problem);
        MemoryRecording whole = copy_of(run);
        std::int64_t added = 0;
        for (const StageInfo& info : stages_of(Direction::forward)) {
            for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
                const TileId tile = tile_at(problem, info.stage, i);
                if (whole.has_tile(info.stage, tile)) continue;
                ++added;
                whole.set_tile(
                    info.stage, tile,
                    std::vector<float>(std::size_t(tile_shape(problem, info.stage).elements()), unwritten));
            }
        }
        EXPECT_GT(added, 0) << "the kernel skips no tile";
        const Report report = judged(whole);
        EXPECT_TRUE(matches(report));
        EXPECT_EQ(report.compared(), judged(run).compared());

        // A tile that rows see is none of them.
        whole.set_tile(Stage::p, {0, 0, 0, 0},
                       std::vector<float>(std::size_t(tile_shape(problem, Stage::p).elements()), unwritten));
        EXPECT_EQ(judged(whole).guilty, Stage::p);
    }
}

/// A kernel that returns early where no key is visible never loads such a query block.
TEST(HiddenParts, QueryBlockThatSeesNothingNeedNotBeLoaded) {
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = 20;
    MemoryRecording run = recorded(make_call(problem, seed));
    run.set_capture(everything_selected());
    run.remove_tile(Stage::q, {0, 0, 0, 0});
    EXPECT_TRUE(matches(run));
    run.remove_tile(Stage::o, {0, 0, 0, 0});
    EXPECT_EQ(judged(run).guilty, Stage::o) << "its output must be written all the same";
    run.remove_tile(Stage::q, {0, 0, 2, 0});
    EXPECT_EQ(judged(run).guilty, Stage::q) << "a block that sees keys must be loaded";
}

TEST(HiddenParts, UnwrittenScoresThatTheMaskHidesDoNotMatter) {
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = problem.seqlen_q;
    MemoryRecording run = healthy_run(problem);
    ASSERT_TRUE(std::isinf(peek(run, Stage::s, {0, 0, 0, 0}, 3, 4)));
    poke(run, Stage::s, {0, 0, 0, 0}, 3, 4, unwritten);
    const Report report = judged(run);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.stage(Stage::s).tally.unwritten, 1);
}

class SkippedRows : public BothPasses {};

/// A thread that has a row of its own leaves tiles out of which it sees nothing.
TEST_P(SkippedRows, WhatARowDoesNotSeeNeedNotBeWritten) {
    Problem problem = one_entry(Mask::causal, direction());
    problem.window_left = 20;
    const MemoryRecording whole = healthy_run(problem);
    MemoryRecording run = copy_of(whole);
    const std::int64_t left_out = leave_out_unseen_rows(run);
    EXPECT_GT(left_out, 0);
    const Report report = judged(run);
    EXPECT_TRUE(matches(report)) << verdict_line(report);
    EXPECT_EQ(report.compared() + left_out, judged(whole).compared());

    // A row that sees the tile is none of them, nor what the mask hides of it: p is multiplied with V there, too.
    const std::int64_t key =
        problem.block_m + problem.seqlen_kv - problem.seqlen_q;  // of row 0 of query block 1
    const TileId diagonal{0, 0, 1, key / problem.block_n};
    EXPECT_EQ(judged(poked(run, Stage::p, diagonal, 0, key % problem.block_n, unwritten)).guilty, Stage::p);
    if (key % problem.block_n + 1 < problem.block_n) {
        EXPECT_EQ(judged(poked(run, Stage::p, diagonal, 0, key % problem.block_n + 1, unwritten)).guilty,
                  Stage::p);
    }
}

/// The tiles that are not there, stored as nothing but unwritten elements.
void store_missing_tiles(MemoryRecording& run) {
    const Problem& problem = run.problem();
    for (const StageInfo& info : stages_of(problem.direction)) {
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            const TileId tile = tile_at(problem, info.stage, i);
            if (run.has_tile(info.stage, tile)) continue;
            run.set_tile(
                info.stage, tile,
                std::vector<float>(std::size_t(tile_shape(problem, info.stage).elements()), unwritten));
        }
    }
}

/// A bias of -inf hides tiles and rows as a mask does, whether they were asked for, stored or not.
TEST_P(SkippedRows, WhatABiasHidesIsAsWhatTheMaskHides) {
    Problem problem = one_entry(Mask::causal, direction());
    problem.window_left = 20;
    const Call call = make_call(problem, seed, {}, InputKind::ramped_k);
    MemoryRecording masked = recorded(call);
    ASSERT_GT(leave_out_unseen_rows(masked), 0);
    for (const bool stored : {false, true}) {
        if (stored) store_missing_tiles(masked);
        masked.set_capture(everything_selected());
        MemoryRecording biased = masked_by_bias(masked, call.inputs);
        const Report by_mask = judged(masked);
        const Report by_bias = judged(biased);
        EXPECT_TRUE(matches(by_bias)) << verdict_line(by_bias);
        for (const StageInfo& info : stages_of(direction())) {
            const StageTally& mask = by_mask.stage(info.stage).tally;
            const StageTally& bias = by_bias.stage(info.stage).tally;
            EXPECT_EQ(bias.compared, mask.compared) << info.name;
            EXPECT_EQ(bias.unwritten, mask.unwritten) << info.name;
            EXPECT_EQ(bias.tiles_missing, 0) << info.name;
        }
        EXPECT_EQ(to_text(reached_blocks(biased)), to_text(reached_blocks(masked)));

        // A row that sees the tile must be written, and so must a tile that rows see.
        const std::int64_t key = problem.block_m + problem.seqlen_kv - problem.seqlen_q;
        const TileId diagonal{0, 0, 1, key / problem.block_n};
        EXPECT_EQ(judged(poked(biased, Stage::p, diagonal, 0, key % problem.block_n, unwritten)).guilty,
                  Stage::p);
        biased.remove_tile(Stage::s, diagonal);
        EXPECT_EQ(judged(biased).guilty, Stage::s);
    }
}

TILESCOPE_TEST_BOTH_PASSES(SkippedRows);

}  // namespace
}  // namespace tilescope::test
