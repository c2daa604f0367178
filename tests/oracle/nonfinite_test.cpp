// NaN, infinities, overflow and underflow, rows that see no key, keys that no row sees, and the smallest
// problems: what the kernel may do with them, and what it may not.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 21;
constexpr TileId some_tile{1, 1, 1, 2};
constexpr TileId last_tile{1, 1, 1, 4};

MemoryRecording healthy_run(Direction direction = Direction::forward) {
    return recorded(make_call(small_problem(Mask::none, direction), seed));
}

class NonFinite : public BothPasses {};

TEST_P(NonFinite, IsCountedAndLocatedInEveryComputedStage) {
    const MemoryRecording run = healthy_run(direction());
    for (const StageInfo& info : stages()) {
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
            EXPECT_EQ(first->tile.head, 1);
            EXPECT_EQ(report.first_divergence->row, first->row);
            EXPECT_TRUE(std::isfinite(tally.max_abs)) << "max_abs is the largest finite difference";
        }
    }
}

/// What a kernel computes from its own NaN is not to blame.
TEST_P(NonFinite, WhatFollowsFromANaNIsInherited) {
    struct Follows {
        Stage stage;
        TileId tile;
        std::int64_t row;
        std::int64_t first_col;
        std::int64_t cols;
    };
    const Stage guilty = is_forward() ? Stage::acc : Stage::ds;
    const std::vector<Follows> following =
        is_forward()
            ? std::vector<Follows>{{Stage::acc, {1, 1, 1, 3}, 3, 5, 1},
                                   {Stage::acc, {1, 1, 1, 4}, 3, 5, 1},
                                   {Stage::o, some_tile, 3, 5, 1}}
            : std::vector<Follows>{{Stage::dq, some_tile, 3, 0, 16}, {Stage::dk, {1, 0, 0, 2}, 5, 0, 16}};
    MemoryRecording recording = poked(healthy_run(direction()), guilty, some_tile, 3, 5, nan);
    std::map<Stage, std::int64_t> inherited;
    for (const Follows& follows : following) {
        for (std::int64_t col = follows.first_col; col < follows.first_col + follows.cols; ++col)
            poke(recording, follows.stage, follows.tile, follows.row, col, nan);
        inherited[follows.stage] += follows.cols;
    }
    const Report report = judged(recording);
    ASSERT_EQ(report.guilty, guilty) << verdict_line(report);
    for (const StageInfo& info : stages()) {
        EXPECT_EQ(report.stage(info.stage).tally.outside, info.stage == guilty ? 1 : 0) << info.name;
        EXPECT_EQ(report.stage(info.stage).tally.inherited, inherited[info.stage]) << info.name;
    }
}

/// NaN in row 20 of q, or of dout, in head 1 of batch entry 0. It sees keys 0 to 52 of 72.
Call call_with_nan(Direction direction) {
    const Problem problem = small_problem(Mask::causal, direction);
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    if (direction == Direction::forward) {
        inputs.q_at(problem, 0, 1, 20, 3) = nan;
        return {problem, {}, inputs};
    }
    Arithmetic arithmetic;
    arithmetic.skips_hidden_terms = true;
    std::vector<float> dout = make_dout(problem, DoutKind::normal, seed);
    dout[std::size_t(((0 * 4 + 1) * 40 + 20) * 16 + 3)] = nan;
    return gradient_call(problem, arithmetic, inputs, dout);
}

TEST_P(NonFinite, NaNOfAnInputMustBeStagedAsNaN) {
    const Stage stage = is_forward() ? Stage::q : Stage::dout;
    const MemoryRecording run = recorded(call_with_nan(direction()));
    EXPECT_TRUE(matches(run));
    const Report report = judged(poked(run, stage, {0, 1, 1, 0}, 4, 3, 0));
    ASSERT_EQ(report.guilty, stage);
    EXPECT_EQ(report.first_divergence->row, 20);
    EXPECT_EQ(report.first_divergence->col, 3);
    EXPECT_EQ(report.first_divergence->got, 0);
}

TILESCOPE_TEST_BOTH_PASSES(NonFinite);

/// Once l is infinite its budget is as well, which must not excuse a finite value.
TEST(ForwardNonFinite, FiniteValueInPlaceOfAnInfinityDiverges) {
    const MemoryRecording run = healthy_run();
    for (const Stage stage : {Stage::l, Stage::acc}) {
        const Report report = judged(poked(run, stage, some_tile, 3, 0, infinity));
        EXPECT_EQ(report.stage(stage).tally.infinite, 2)
            << "the infinity, and the finite value of the next tile";
        EXPECT_TRUE(std::isfinite(report.stage(stage).tally.max_abs));
    }
}

/// Kernels differ in what their maximum makes of NaN; neither way is wrong.
TEST(ForwardNonFinite, NaNInTheInputsIsNoFault) {
    const Problem problem = small_problem();
    Inputs inputs = make_inputs(problem, InputKind::normal, 22);
    inputs.q_at(problem, 0, 1, 20, 3) = nan;
    inputs.k_at(problem, 1, 0, 40, 3) = nan;
    inputs.v_at(problem, 1, 1, 50, 3) = nan;
    const MemoryRecording run = recorded({problem, {}, inputs});
    EXPECT_TRUE(matches(run));

    // What is merged in the end comes of parts whose maximum passed NaN over.
    Problem in_lanes = problem;
    in_lanes.l_lanes = 4;
    in_lanes.l_lane_columns = 2;
    EXPECT_TRUE(matches(recorded({in_lanes, {}, inputs})));
    Problem split = problem;
    split.kv_tiles_per_split = 2;
    EXPECT_TRUE(matches(recorded({split, {}, inputs})));

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

TEST(ForwardNonFinite, OverflowOfFloat32IsWhatFloat32Does) {
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

TEST(ForwardNonFinite, OverflowOfFloat16IsBlamedUnlessTheOutputIsStoredInIt) {
    Problem problem = small_problem();
    Inputs inputs = make_inputs(problem, InputKind::normal, 25);
    for (std::int64_t d = 0; d < problem.head_dim; ++d) {
        inputs.q_at(problem, 0, 0, 2, d) = 150;
        inputs.k_at(problem, 0, 0, 3, d) = 150;
        inputs.v_at(problem, 0, 0, 3, d) = 65504;
    }
    const MemoryRecording run = recorded({problem, {}, inputs});
    EXPECT_TRUE(matches(run));
    ASSERT_EQ(peek(run, Stage::s, {0, 0, 0, 0}, 2, 3), 90000);
    EXPECT_EQ(judged(poked(run, Stage::s, {0, 0, 0, 0}, 2, 3, infinity)).guilty, Stage::s);

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
TEST(ForwardNonFinite, ScoresOfEveryMagnitudeHaveBudgets) {
    for (const int exponent : {-50, -40, -20, 20, 45}) {
        Problem problem = small_problem();
        problem.dtype_q = problem.dtype_k = Dtype::bf16;
        Inputs inputs = make_inputs(problem, InputKind::normal, 27);
        for (float& q : inputs.q) q = std::ldexp(q, exponent);
        for (float& k : inputs.k) k = std::ldexp(k, exponent);
        const MemoryRecording run = recorded({problem, {}, inputs});
        EXPECT_TRUE(matches(run)) << exponent;
        const float wrong = peek(run, Stage::s, some_tile, 3, 4) * 1.01f;
        EXPECT_EQ(judged(poked(run, Stage::s, some_tile, 3, 4, wrong)).guilty, Stage::s) << exponent;
    }
}

/// -ftz=true replaces subnormal results by zero.
TEST(ForwardNonFinite, FlushingToZeroIsNoFault) {
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
        change_stage(flushed, stage, [&](float value, auto...) {
            if (std::fpclassify(value) != FP_SUBNORMAL) return value;
            ++flushes;
            return 0.0f;
        });
    }
    EXPECT_GT(flushes, 10000);
    for (const MemoryRecording* recording : {&std::as_const(run), &std::as_const(flushed)}) {
        const Report report = report_of(*recording, one_thread());
        EXPECT_FALSE(report.guilty) << verdict_line(report);
        EXPECT_GT(report.stage(Stage::p).tally.compared, 0);
        EXPECT_EQ(report.stage(Stage::o).tally.compared, 0) << "any o of these V may be flushed";
    }
}

TEST(BackwardNonFinite, NaNInARowOfDoutTouchesOnlyWhatDependsOnIt) {
    const MemoryRecording run = recorded(call_with_nan(Direction::backward));
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
        const Report changed = judged(poked(run, place.stage, place.tile, place.row, 3, 100));
        EXPECT_EQ(changed.stage(place.stage).tally.outside, place.depends ? 0 : 1)
            << stage_info(place.stage).name << " row " << place.row;
    }
}

/// The first 20 rows see nothing, whatever their lse and o are given as.
TEST(BackwardNonFinite, RowsThatSeeNoKeyHaveNoGradient) {
    for (const EmptyRow lse : {EmptyRow::minus_infinity, EmptyRow::plus_infinity, EmptyRow::nan}) {
        for (const EmptyRow o : {EmptyRow::zero, EmptyRow::nan}) {
            Problem problem = small_problem(Mask::causal, Direction::backward);
            problem.seqlen_kv = 20;
            Arithmetic arithmetic;
            arithmetic.skips_hidden_terms = true;
            arithmetic.lse_empty_row = lse;
            arithmetic.o_empty_row = o;
            const Call call = make_call(problem, seed, arithmetic);
            SCOPED_TRACE(describe(call));
            const MemoryRecording run = recorded(call);
            ASSERT_EQ(peek(run, Stage::dq, {1, 1, 1, 0}, 3, 2), 0);
            ASSERT_NE(peek(run, Stage::dq, {1, 1, 1, 0}, 5, 2), 0);
            EXPECT_TRUE(matches(run));
            for (const float value : {nan, infinity, 0.01f}) {
                const MemoryRecording wrong = poked(run, Stage::dq, {1, 1, 1, 0}, 3, 2, value);
                EXPECT_EQ(judged(wrong).guilty, Stage::dq) << value;
                const Report alone = judged(with_stages(wrong, {Stage::dq}));
                EXPECT_EQ(alone.guilty, Stage::dq) << value << " alone";
            }
        }
    }
}

/// Aligned to the top left, 40 rows see 40 of 72 keys.
TEST(BackwardNonFinite, KeysThatNoRowSeesHaveNoGradient) {
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
                    // The last tile has 8 keys.
                    const std::int64_t key = tile.kv_tile == 2 ? 8 : 3;
                    EXPECT_EQ(judged(poked(run, stage, tile, key, 2, value)).guilty, stage) << value;
                }
            }
        }
    }
}

/// A key that the bias hides from every row, a whole tile of them.
TEST(BackwardNonFinite, KeysThatTheBiasHidesHaveNoGradient) {
    const Problem problem = small_problem(Mask::none, Direction::backward);
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    inputs.bias = {1, 1, 1, problem.seqlen_kv, std::vector<float>(72, 0.5f)};
    for (std::size_t key = 16; key < 40; ++key) inputs.bias.values[key] = -infinity;
    const Call call = gradient_call(problem, {}, inputs, make_dout(problem, DoutKind::normal, seed));
    const MemoryRecording run = recorded(call);
    ASSERT_EQ(peek(run, Stage::dv, {1, 1, 0, 1}, 3, 2), 0);
    EXPECT_TRUE(matches(run));
    EXPECT_EQ(judged(poked(run, Stage::dv, {1, 1, 0, 1}, 3, 2, 0.001f)).guilty, Stage::dv);
}

/// Entries without rows, without keys, and without either.
TEST(BackwardNonFinite, EntriesOfNoLength) {
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
         {std::pair{Stage::dk, TileId{1, 0, 0, 1}}, std::pair{Stage::dq, TileId{2, 0, 1, 0}}})
        EXPECT_EQ(judged(poked(run, stage, tile, 3, 2, 0.001f)).guilty, stage);
    run.remove_tile(Stage::dv, {1, 1, 0, 4});
    EXPECT_EQ(judged(run).guilty, Stage::dv) << "zeros must be written, too";
}

/// With one key P is 1 and ds is what the roundings of delta leave.
TEST(BackwardNonFinite, ProblemsOfOneElement) {
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
        const float dv = peek(run, Stage::dv, {}, 0, 0);
        const float wrong = dv + 0.05f * std::abs(dv) + 0.01f;
        EXPECT_EQ(judged(poked(run, Stage::dv, {}, 0, 0, wrong)).guilty, Stage::dv);
    }
}

/// What float16 does not hold is an infinity, and right.
TEST(BackwardNonFinite, OverflowOfAnOutputIsWhatItsTypeDoes) {
    Problem problem = small_problem(Mask::none, Direction::backward);
    problem.dtype_dout = Dtype::f32;
    std::vector<float> dout = make_dout(problem, DoutKind::large, seed);
    for (float& value : dout) value *= 1024;
    const Call call = gradient_call(problem, {}, make_inputs(problem, InputKind::large, seed), dout);
    const MemoryRecording run = recorded(call);
    std::int64_t infinities = 0;
    visit_stage(run, Stage::dv, [&](float value, auto...) { infinities += std::isinf(value); });
    EXPECT_GT(infinities, 0);
    EXPECT_TRUE(matches(run));
}

}  // namespace
}  // namespace tilescope::test
