// NaN, infinities, overflow and underflow: what the kernel may do with them, and what it may not.

#include <gtest/gtest.h>

#include <cmath>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr TileId some_tile{1, 2, 1, 2};
constexpr TileId last_tile{1, 2, 1, 4};

MemoryRecording healthy_run() {
    const Problem problem = small_problem();
    return recorded(make_call(problem, 21));
}

TEST(NonFinite, IsCountedAndLocatedInEveryComputedStage) {
    const MemoryRecording run = healthy_run();
    for (const StageInfo& info : stages_of(Direction::forward)) {
        for (const float value : {nan, infinity, -infinity}) {
            SCOPED_TRACE(std::string(info.name) + " " + std::to_string(value));
            MemoryRecording recording = poked(run, info.stage, last_tile, 3, 0, value);
            poke(recording, info.stage, last_tile, 5, 0, value);
            const Report report = judged(recording);
            ASSERT_EQ(report.guilty, info.stage) << verdict_line(report);
            const StageTally& tally = report.stage(info.stage).tally;
            EXPECT_EQ(tally.outside, 2);
            EXPECT_EQ(tally.nan, std::isnan(value) ? 2 : 0);
            EXPECT_EQ(tally.infinite, std::isinf(value) ? 2 : 0);
            const auto& first = std::isnan(value) ? tally.first_nan : tally.first_infinite;
            ASSERT_TRUE(first);
            EXPECT_EQ(first->row, (info.row_axis == Axis::key ? 64 : 16) + 3);
            EXPECT_EQ(first->tile.head, 2);
            EXPECT_TRUE(std::isfinite(tally.max_abs)) << "max_abs is the largest finite difference";
        }
    }
}

/// Once l is infinite its budget is as well, which must not excuse a finite value.
TEST(NonFinite, FiniteValueInPlaceOfAnInfinityDiverges) {
    const MemoryRecording run = healthy_run();
    for (const Stage stage : {Stage::l, Stage::acc}) {
        MemoryRecording recording = poked(run, stage, some_tile, 3, 0, infinity);
        const Report report = judged(recording);
        EXPECT_EQ(report.stage(stage).tally.infinite, 2)
            << "the infinity, and the finite value of the next tile";
        EXPECT_TRUE(std::isfinite(report.stage(stage).tally.max_abs));
    }
}

TEST(NonFinite, StagesThatFollowFromANaNAreNotGuilty) {
    const MemoryRecording run = healthy_run();
    MemoryRecording recording = poked(run, Stage::acc, some_tile, 3, 5, nan);
    poke(recording, Stage::acc, {1, 2, 1, 3}, 3, 5, nan);
    poke(recording, Stage::acc, {1, 2, 1, 4}, 3, 5, nan);
    poke(recording, Stage::o, some_tile, 3, 5, nan);
    const Report report = judged(recording);
    EXPECT_EQ(report.guilty, Stage::acc);
    EXPECT_EQ(report.stage(Stage::acc).tally.outside, 1);
    EXPECT_EQ(report.stage(Stage::acc).tally.inherited, 2);
    EXPECT_EQ(report.stage(Stage::o).tally.outside, 0);
    EXPECT_EQ(report.stage(Stage::o).tally.inherited, 1);
}

/// Kernels differ in what their maximum makes of NaN; neither way is wrong.
TEST(NonFinite, NaNInTheInputsIsNoFault) {
    const Problem problem = small_problem();
    Inputs inputs = make_inputs(problem, InputKind::normal, 22);
    inputs.q_at(problem, 0, 1, 20, 3) = nan;
    inputs.k_at(problem, 1, 0, 40, 3) = nan;
    inputs.v_at(problem, 1, 1, 50, 3) = nan;
    const MemoryRecording run = recorded({problem, {}, inputs});
    EXPECT_TRUE(matches(run));

    // A maximum that keeps the NaN, and all that follows from it.
    MemoryRecording keeping = copy_of(run);
    for (std::int64_t kv_tile = 0; kv_tile < problem.kv_tiles(); ++kv_tile) {
        const TileId tile{0, 1, 1, kv_tile};
        poke(keeping, Stage::m, tile, 4, 0, nan);
        poke(keeping, Stage::l, tile, 4, 0, nan);
        for (std::int64_t d = 0; d < problem.head_dim_v; ++d) {
            poke(keeping, Stage::acc, tile, 4, d, nan);
            poke(keeping, Stage::o, tile, 4, d, nan);
        }
        const std::int64_t keys = tile_extent(problem, Stage::k, tile).rows;
        for (std::int64_t key = 0; key < keys; ++key) poke(keeping, Stage::p, tile, 4, key, nan);
    }
    poke(keeping, Stage::lse, {0, 1, 1, 0}, 4, 0, nan);
    EXPECT_TRUE(matches(keeping));
}

TEST(NonFinite, NaNOfAnInputMustBeStagedAsNaN) {
    const Problem problem = small_problem();
    Inputs inputs = make_inputs(problem, InputKind::normal, 23);
    inputs.q_at(problem, 0, 1, 20, 3) = nan;
    MemoryRecording run = recorded({problem, {}, inputs});
    poke(run, Stage::q, {0, 1, 1, 0}, 4, 3, 0);
    const Report report = judged(run);
    ASSERT_EQ(report.guilty, Stage::q);
    EXPECT_EQ(report.first_divergence->row, 20);
    EXPECT_EQ(report.first_divergence->col, 3);
    EXPECT_EQ(report.first_divergence->got, 0);
}

TEST(NonFinite, OverflowOfFloat32IsWhatFloat32Does) {
    Problem problem = small_problem();
    problem.dtype_q = problem.dtype_k = Dtype::bf16;
    problem.sm_scale = 1;
    Inputs inputs = make_inputs(problem, InputKind::normal, 24);
    for (std::int64_t d = 0; d < problem.head_dim; ++d) {
        inputs.q_at(problem, 0, 0, 2, d) = 0x1p70f;
        inputs.k_at(problem, 0, 0, 3, d) = 0x1p70f;
    }
    const MemoryRecording run = recorded({problem, {}, inputs});
    ASSERT_TRUE(std::isinf(peek(run, Stage::s, {0, 0, 0, 0}, 2, 3)));
    EXPECT_TRUE(matches(run));
}

TEST(NonFinite, OverflowOfFloat16IsBlamedUnlessTheOutputIsStoredInIt) {
    Problem problem = small_problem();
    Inputs inputs = make_inputs(problem, InputKind::normal, 25);
    for (std::int64_t d = 0; d < problem.head_dim; ++d) {
        inputs.q_at(problem, 0, 0, 2, d) = 150;
        inputs.k_at(problem, 0, 0, 3, d) = 150;
        inputs.v_at(problem, 0, 0, 3, d) = 65504;
    }
    MemoryRecording run = recorded({problem, {}, inputs});
    EXPECT_TRUE(matches(run));
    ASSERT_EQ(peek(run, Stage::s, {0, 0, 0, 0}, 2, 3), 90000);
    MemoryRecording half_scores = poked(run, Stage::s, {0, 0, 0, 0}, 2, 3, infinity);
    EXPECT_EQ(judged(half_scores).guilty, Stage::s);

    // 65504 is half an ulp of float16 away from what rounds to infinity: the bound of acc / l reaches it.
    problem.dtype_o = Dtype::f16;
    MemoryRecording at_the_edge = copy_of(run);
    for (std::int64_t t = 0; t < problem.kv_tiles(); ++t)
        poke(at_the_edge, Stage::acc, {0, 0, 0, t}, 2, 0, 65530);
    poke(at_the_edge, Stage::o, {0, 0, 0, 0}, 2, 0, infinity);
    const Report report = judged(at_the_edge);
    EXPECT_EQ(report.stage(Stage::o).tally.infinite, 0);
}

/// Neither do budgets vanish where the squares of scores do, nor overflow where those of others do.
TEST(NonFinite, ScoresOfEveryMagnitudeHaveBudgets) {
    for (const int exponent : {-50, -40, -20, 20, 45}) {
        Problem problem = small_problem();
        problem.dtype_q = problem.dtype_k = Dtype::bf16;
        Inputs inputs = make_inputs(problem, InputKind::normal, 27);
        for (float& q : inputs.q) q = std::ldexp(q, exponent);
        for (float& k : inputs.k) k = std::ldexp(k, exponent);
        const MemoryRecording run = recorded({problem, {}, inputs});
        const Report report = judged(run);
        EXPECT_TRUE(matches(report)) << exponent << ": " << verdict_line(report);
        MemoryRecording wrong =
            poked(run, Stage::s, some_tile, 3, 4, peek(run, Stage::s, some_tile, 3, 4) * 1.01f);
        EXPECT_EQ(judged(wrong).guilty, Stage::s) << exponent;
    }
}

/// -ftz=true replaces subnormal results by zero.
TEST(NonFinite, FlushingToZeroIsNoFault) {
    Problem problem = small_problem();
    problem.dtype_q = problem.dtype_k = problem.dtype_v = Dtype::bf16;
    problem.dtype_o = Dtype::f32;
    Inputs inputs = make_inputs(problem, InputKind::normal, 26);
    for (float& q : inputs.q) q = std::ldexp(q, -65);
    for (float& k : inputs.k) k = std::ldexp(k, -65);
    for (float& v : inputs.v) v = std::ldexp(v, -128);
    // Inputs stay what bfloat16 holds: cut what shifting left below its last bit.
    for (std::vector<float>* values : {&inputs.q, &inputs.k, &inputs.v}) {
        for (float& value : *values) value = rounded(Dtype::bf16, value);
    }
    const MemoryRecording run = recorded({problem, {}, inputs});
    MemoryRecording flushed = copy_of(run);
    std::int64_t flushes = 0;
    for (const Stage stage : {Stage::s, Stage::m, Stage::acc, Stage::o}) {
        for (std::int64_t i = 0; i < tile_count(problem, stage); ++i) {
            const TileId tile = tile_at(problem, stage, i);
            std::vector<float> values(std::size_t(tile_shape(problem, stage).elements()));
            ASSERT_TRUE(flushed.read_tile(stage, tile, values));
            for (float& value : values) {
                if (std::fpclassify(value) != FP_SUBNORMAL) continue;
                value = 0;
                ++flushes;
            }
            flushed.set_tile(stage, tile, std::move(values));
        }
    }
    EXPECT_GT(flushes, 10000);
    for (const MemoryRecording* recording : std::array<const MemoryRecording*, 2>{&run, &flushed}) {
        const Report report = report_of(*recording, one_thread());
        EXPECT_FALSE(report.guilty) << verdict_line(report);
        EXPECT_GT(report.stage(Stage::p).tally.compared, 0);
        EXPECT_EQ(report.stage(Stage::o).tally.compared, 0) << "any o of these V may be flushed";
    }
}

}  // namespace
}  // namespace tilescope::test
