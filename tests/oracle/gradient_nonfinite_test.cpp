// NaN, infinities, rows that see no key, keys that no row sees, and the smallest problems of the backward
// pass.

#include <gtest/gtest.h>

#include <cmath>

#include "dump/schema/error.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/gradient_checks.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr TileId some_tile{1, 1, 1, 2};
constexpr std::uint64_t seed = 95;

Arithmetic skipping_hidden() {
    Arithmetic arithmetic;
    arithmetic.skips_hidden_terms = true;
    return arithmetic;
}

TEST(GradientNonFinite, IsCountedAndLocatedInEveryStage) {
    const MemoryRecording run = recorded(make_call(small_problem(Mask::none, Direction::backward), seed));
    for (const Stage stage : backward_stages()) {
        for (const float value : {nan, infinity, -infinity}) {
            SCOPED_TRACE(std::string(stage_info(stage).name) + " " + std::to_string(value));
            MemoryRecording recording = poked(run, stage, some_tile, 3, 0, value);
            const Report report = judged(recording);
            ASSERT_EQ(report.guilty, stage) << verdict_line(report);
            const StageTally& tally = report.stage(stage).tally;
            EXPECT_EQ(tally.outside, 1);
            EXPECT_EQ(tally.nan, std::isnan(value) ? 1 : 0);
            EXPECT_EQ(tally.infinite, std::isinf(value) ? 1 : 0);
            EXPECT_EQ(report.first_divergence->row, (stage_info(stage).row_axis == Axis::key ? 32 : 16) + 3);
        }
    }
}

/// What a kernel computes from its own NaN is not to blame.
TEST(GradientNonFinite, WhatFollowsFromANaNIsInherited) {
    const MemoryRecording run = recorded(make_call(small_problem(Mask::none, Direction::backward), seed));
    MemoryRecording recording = poked(run, Stage::ds, some_tile, 3, 5, nan);
    for (std::int64_t d = 0; d < 16; ++d) {
        poke(recording, Stage::dq, some_tile, 3, d, nan);
        poke(recording, Stage::dk, {1, 0, 0, 2}, 5, d, nan);
    }
    const Report report = judged(recording);
    ASSERT_EQ(report.guilty, Stage::ds) << verdict_line(report);
    EXPECT_EQ(report.stage(Stage::ds).tally.outside, 1);
    EXPECT_EQ(report.stage(Stage::dq).tally.outside, 0);
    EXPECT_EQ(report.stage(Stage::dk).tally.outside, 0);
    EXPECT_EQ(report.stage(Stage::dq).tally.inherited, 16);
    EXPECT_EQ(report.stage(Stage::dk).tally.inherited, 16);
}

/// Row 20 of head 1, batch 0, sees keys 0 to 52 of 72 under the causal mask.
Call call_with_nan_in_dout() {
    const Problem problem = small_problem(Mask::causal, Direction::backward);
    std::vector<float> dout = make_dout(problem, DoutKind::normal, seed);
    dout[std::size_t(((0 * 4 + 1) * 40 + 20) * 16 + 3)] = nan;
    return gradient_call(problem, skipping_hidden(), make_inputs(problem, InputKind::normal, seed), dout);
}

TEST(GradientNonFinite, NaNInARowOfDoutTouchesOnlyWhatDependsOnIt) {
    const MemoryRecording run = recorded(call_with_nan_in_dout());
    ASSERT_TRUE(std::isnan(peek(run, Stage::dq, {0, 1, 1, 0}, 4, 0)));
    ASSERT_TRUE(std::isnan(peek(run, Stage::dv, {0, 0, 0, 3}, 4, 3)));
    ASSERT_TRUE(std::isfinite(peek(run, Stage::dv, {0, 0, 0, 3}, 5, 3)));
    const Report report = judged(run);
    EXPECT_TRUE(matches(report));
    const std::int64_t keys = 53;
    EXPECT_EQ(report.stage(Stage::dq).tally.compared, 2 * 4 * 40 * 16 - 16);
    EXPECT_EQ(report.stage(Stage::dk).tally.compared, 2 * 2 * 72 * 16 - keys * 16);
    EXPECT_EQ(report.stage(Stage::dv).tally.compared, 2 * 2 * 72 * 16 - keys);

    struct Place {
        Stage stage;
        TileId tile;
        std::int64_t row;
        bool depends;
    };
    const Place places[] = {
        {Stage::dq, {0, 1, 1, 0}, 4, true}, {Stage::dq, {0, 1, 1, 0}, 5, false},
        {Stage::dk, {0, 0, 0, 3}, 4, true}, {Stage::dk, {0, 0, 0, 3}, 5, false},
        {Stage::dv, {0, 0, 0, 3}, 4, true}, {Stage::dv, {0, 0, 0, 3}, 5, false},
        {Stage::dp, {0, 1, 1, 2}, 4, true}, {Stage::dp, {0, 1, 1, 2}, 5, false},
        {Stage::ds, {0, 1, 1, 2}, 4, true}, {Stage::ds, {0, 1, 1, 2}, 5, false},
    };
    for (const Place& place : places) {
        MemoryRecording wrong = poked(run, place.stage, place.tile, place.row, 3, 100);
        const Report changed = judged(wrong);
        EXPECT_EQ(changed.stage(place.stage).tally.outside, place.depends ? 0 : 1)
            << stage_info(place.stage).name << " row " << place.row;
    }
}

TEST(GradientNonFinite, NaNOfDoutMustBeStagedAsNaN) {
    MemoryRecording run = recorded(call_with_nan_in_dout());
    poke(run, Stage::dout, {0, 1, 1, 0}, 4, 3, 0);
    const Report report = judged(run);
    ASSERT_EQ(report.guilty, Stage::dout);
    EXPECT_EQ(report.first_divergence->row, 20);
}

/// The first 20 rows see nothing, whatever their lse and o are given as.
TEST(GradientNonFinite, RowsThatSeeNoKeyHaveNoGradient) {
    for (const EmptyRow lse : {EmptyRow::minus_infinity, EmptyRow::plus_infinity, EmptyRow::nan}) {
        for (const EmptyRow o : {EmptyRow::zero, EmptyRow::nan}) {
            Problem problem = small_problem(Mask::causal, Direction::backward);
            problem.seqlen_kv = 20;
            Arithmetic arithmetic = skipping_hidden();
            arithmetic.lse_empty_row = lse;
            arithmetic.o_empty_row = o;
            const Call call = make_call(problem, seed, arithmetic);
            SCOPED_TRACE(describe(call));
            const MemoryRecording run = recorded(call);
            ASSERT_EQ(peek(run, Stage::dq, {1, 1, 1, 0}, 3, 2), 0);
            ASSERT_NE(peek(run, Stage::dq, {1, 1, 1, 0}, 5, 2), 0);
            EXPECT_TRUE(matches(run));
            for (const float value : {nan, infinity, 0.01f}) {
                MemoryRecording wrong = poked(run, Stage::dq, {1, 1, 1, 0}, 3, 2, value);
                EXPECT_EQ(judged(wrong).guilty, Stage::dq) << value;
                const Report alone = judged(with_stages(wrong, {Stage::dq}));
                EXPECT_EQ(alone.guilty, Stage::dq) << value << " alone";
            }
        }
    }
}

/// Aligned to the top left, 40 rows see 40 of 72 keys.
TEST(GradientNonFinite, KeysThatNoRowSeesHaveNoGradient) {
    for (const bool skips : {false, true}) {
        Problem problem = small_problem(Mask::causal, Direction::backward);
        problem.causal_alignment = CausalAlignment::top_left;
        Arithmetic arithmetic;
        arithmetic.skips_hidden_tiles = skips;
        const MemoryRecording run = recorded(make_call(problem, seed, arithmetic));
        ASSERT_NE(peek(run, Stage::dk, {1, 1, 0, 2}, 7, 2), 0);
        ASSERT_EQ(peek(run, Stage::dk, {1, 1, 0, 2}, 8, 2), 0);
        EXPECT_TRUE(matches(run));
        for (const Stage stage : {Stage::dk, Stage::dv}) {
            for (const TileId& tile : {TileId{1, 1, 0, 2}, TileId{1, 1, 0, 4}}) {
                for (const float value : {nan, 0.001f}) {
                    MemoryRecording wrong = copy_of(run);
                    // The last tile has 8 keys.
                    poke(wrong, stage, tile, tile.kv_tile == 2 ? 8 : 3, 2, value);
                    EXPECT_EQ(judged(wrong).guilty, stage) << value;
                }
            }
        }
    }
}

/// A key that the bias hides from every row, a whole tile of them.
TEST(GradientNonFinite, KeysThatTheBiasHidesHaveNoGradient) {
    const Problem problem = small_problem(Mask::none, Direction::backward);
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    inputs.bias = {1, 1, 1, problem.seqlen_kv, std::vector<float>(72, 0.5f)};
    for (std::size_t key = 16; key < 40; ++key) inputs.bias.values[key] = -infinity;
    const Call call = gradient_call(problem, {}, inputs, make_dout(problem, DoutKind::normal, seed));
    const MemoryRecording run = recorded(call);
    ASSERT_EQ(peek(run, Stage::dv, {1, 1, 0, 1}, 3, 2), 0);
    EXPECT_TRUE(matches(run));
    MemoryRecording wrong = poked(run, Stage::dv, {1, 1, 0, 1}, 3, 2, 0.001f);
    EXPECT_EQ(judged(wrong).guilty, Stage::dv);
}

/// Entries without rows, without keys, and without either.
TEST(GradientNonFinite, EntriesOfNoLength) {
    Problem problem = small_problem(Mask::none, Direction::backward);
    problem.batch = 4;
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    inputs.side.seqlens_q = {17, 0, 40, 0};
    inputs.side.seqlens_kv = {33, 72, 0, 0};
    const Call call = gradient_call(problem, {}, inputs, make_dout(problem, DoutKind::normal, seed));
    MemoryRecording run = recorded(call);
    run.set_capture(everything_selected());
    const Report report = judged(run);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.stage(Stage::ds).tally.compared, 4 * 17 * 33);
    EXPECT_EQ(report.stage(Stage::dq).tally.compared, 4 * (17 + 40) * 16);
    EXPECT_EQ(report.stage(Stage::dk).tally.compared, 2 * (33 + 72) * 16);
    ASSERT_EQ(peek(run, Stage::dk, {1, 0, 0, 1}, 3, 2), 0);
    ASSERT_EQ(peek(run, Stage::dq, {2, 0, 1, 0}, 3, 2), 0);
    for (const auto& [stage, tile] :
         {std::pair{Stage::dk, TileId{1, 0, 0, 1}}, std::pair{Stage::dq, TileId{2, 0, 1, 0}}}) {
        MemoryRecording wrong = poked(run, stage, tile, 3, 2, 0.001f);
        EXPECT_EQ(judged(wrong).guilty, stage);
    }
    run.remove_tile(Stage::dv, {1, 1, 0, 4});
    EXPECT_EQ(judged(run).guilty, Stage::dv) << "zeros must be written, too";
}

/// With one key P is 1 and ds is what the roundings of delta leave.
TEST(GradientNonFinite, ProblemsOfOneElement) {
    for (std::uint64_t i = 0; i < 100; ++i) {
        Problem problem;
        problem.direction = Direction::backward;
        problem.heads = problem.heads_kv = 1;
        problem.head_dim = 1 + std::int64_t(i % 3);
        problem.head_dim_v = 1 + std::int64_t(i % 2);
        problem.block_m = problem.block_n = i % 2 == 0 ? 1 : 16;
        problem.sm_scale = 0.5;
        problem.dtype_dq = problem.dtype_dk = problem.dtype_dv = i % 2 == 0 ? Dtype::f32 : Dtype::f16;
        const Call call = make_call(problem, i, random_arithmetic(problem, i));
        SCOPED_TRACE("seed " + std::to_string(i) + ": " + describe(call));
        const MemoryRecording run = recorded(call);
        EXPECT_TRUE(matches(run));
        MemoryRecording wrong = copy_of(run);
        const float dv = peek(run, Stage::dv, {}, 0, 0);
        poke(wrong, Stage::dv, {}, 0, 0, dv + 0.05f * std::abs(dv) + 0.01f);
        EXPECT_EQ(judged(wrong).guilty, Stage::dv);
    }
}

/// What float16 does not hold is an infinity, and right.
TEST(GradientNonFinite, OverflowOfAnOutputIsWhatItsTypeDoes) {
    Problem problem = small_problem(Mask::none, Direction::backward);
    problem.dtype_dout = Dtype::f32;
    std::vector<float> dout = make_dout(problem, DoutKind::large, seed);
    for (float& value : dout) value *= 1024;
    const Call call = gradient_call(problem, {}, make_inputs(problem, InputKind::large, seed), dout);
    const MemoryRecording run = recorded(call);
    std::int64_t infinities = 0;
    for (std::int64_t i = 0; i < tile_count(run.problem(), Stage::dv); ++i) {
        const TileId tile = tile_at(run.problem(), Stage::dv, i);
        const TileShape extent = tile_extent(run.problem(), Stage::dv, tile);
        for (std::int64_t e = 0; e < extent.elements(); ++e)
            infinities += std::isinf(peek(run, Stage::dv, tile, e / extent.cols, e % extent.cols));
    }
    EXPECT_GT(infinities, 0);
    EXPECT_TRUE(matches(run));
}

}  // namespace
}  // namespace tilescope::test
