// What backward kernels may do in their own way is no divergence: loops, orders and splits of sums, what is
// folded into ds, casts, and which stages are dumped.

#include <gtest/gtest.h>

#include "dump/schema/error.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/gradient_checks.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 81;

Problem one_group(Mask mask) {
    Problem problem = small_problem(mask, Direction::backward);
    problem.batch = 1;
    problem.dtype_dq = problem.dtype_dk = problem.dtype_dv = Dtype::f32;
    return problem;
}

void expect_everything_matches(const Report& report) {
    EXPECT_TRUE(matches(report));
    for (const Stage stage : backward_stages())
        EXPECT_GT(report.stage(stage).tally.compared, 0) << stage_info(stage).name;
}

/// The same tiles and inputs with other declarations.
MemoryRecording declared_as(const Recording& run, const Problem& problem, const Units& units) {
    MemoryRecording other(problem, units);
    for (const StageInfo& info : all_stages()) {
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            const TileId tile = tile_at(problem, info.stage, i);
            std::vector<float> values(std::size_t(tile_shape(problem, info.stage).elements()));
            if (run.read_tile(info.stage, tile, values)) other.set_tile(info.stage, tile, std::move(values));
        }
    }
    for (const Input input : {Input::q, Input::k, Input::v, Input::dout, Input::o, Input::lse})
        other.set_input(input, whole_input(run, input));
    return other;
}

/// Elements of a stage that differ between two runs.
std::int64_t differences(const Recording& a, const Recording& b, Stage stage) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < tile_count(a.problem(), stage); ++i) {
        const TileId tile = tile_at(a.problem(), stage, i);
        const TileShape extent = tile_extent(a.problem(), stage, tile);
        for (std::int64_t e = 0; e < extent.elements(); ++e)
            count += peek(a, stage, tile, e / extent.cols, e % extent.cols) !=
                     peek(b, stage, tile, e / extent.cols, e % extent.cols);
    }
    return count;
}

class GradientOrders : public ::testing::TestWithParam<LoopNest> {};

TEST_P(GradientOrders, AreAllLegal) {
    const Call plain = make_call(one_group(Mask::causal), seed);
    const MemoryRecording in_order = recorded(plain);
    for (int variation = 0; variation < 16; ++variation) {
        Call call = plain;
        call.arithmetic.nest = GetParam();
        call.arithmetic.dkv_atomic = (variation & 1) != 0;
        call.arithmetic.group_in_parts = (variation & 2) != 0;
        call.arithmetic.reversed_blocks = (variation & 4) != 0;
        call.arithmetic.skips_hidden_tiles = (variation & 8) != 0;
        call.arithmetic.order_seed = std::uint64_t(variation) + 1;
        SCOPED_TRACE(describe(call));
        MemoryRecording run = recorded(call);
        run.set_capture(everything_selected());
        expect_everything_matches(judged(run));
        EXPECT_GT(differences(run, in_order, Stage::dk) + differences(run, in_order, Stage::dq), 0)
            << "no other order";
    }
}

INSTANTIATE_TEST_SUITE_P(Nests, GradientOrders,
                         ::testing::Values(LoopNest::keys_outside, LoopNest::two_passes));

TEST(GradientVariation, GradientsOfAQueryHeadOrOfItsGroup) {
    for (const bool per_head : {false, true}) {
        Problem problem = one_group(Mask::none);
        problem.dkv_per_head = per_head;
        const MemoryRecording run = recorded(make_call(problem, seed));
        const Report report = judged(run);
        expect_everything_matches(report);
        EXPECT_EQ(report.stage(Stage::dk).tally.compared, (per_head ? 4 : 2) * 72 * 16);
    }
}

TEST(GradientVariation, EveryScaleAndCastOfDsAndP) {
    for (const double cap : {0.0, 3.0}) {
        for (const double ds_scale : {1.0, 0.25, 8.0, double(0.37f)}) {
            for (const Dtype operand : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
                for (int variation = 0; variation < 8; ++variation) {
                    Problem problem = one_group(Mask::causal);
                    problem.logits_soft_cap = cap;
                    Arithmetic a;
                    a.ds_scale = ds_scale;
                    a.ds_operand = a.p_operand = operand;
                    a.dumps_cast_ds = (variation & 1) != 0;
                    a.dumps_cast_p = (variation & 2) != 0;
                    a.ds_from_cast_p = (variation & 4) != 0;
                    a.dumps_uncapped_ds = cap != 0 && !a.dumps_cast_ds && (variation & 4) != 0;
                    a.ds_order = DsOrder(variation % ds_orders);
                    const Call call = make_call(problem, seed, a);
                    SCOPED_TRACE(describe(call));
                    expect_everything_matches(judged(recorded(call)));
                }
            }
        }
    }
}

TEST(GradientVariation, EveryScoreThatTheExponentialTakesAndBaseOfLse) {
    for (int softmax = 0; softmax < softmaxes; ++softmax) {
        for (const LogBase base : {LogBase::e, LogBase::two}) {
            Arithmetic a;
            a.softmax = Softmax(softmax);
            a.lse_log_base = base;
            const Call call = make_call(one_group(Mask::causal), seed, a);
            SCOPED_TRACE(describe(call));
            expect_everything_matches(judged(recorded(call)));
        }
    }
}

/// What a kernel declares must be what it does.
TEST(GradientVariation, IsNoneWhereItIsNotDeclared) {
    struct Case {
        Stage blamed;
        void (*declare)(Units&);
    };
    const Case cases[] = {
        {Stage::ds, [](Units& u) { u.ds_scale = 0.25; }},
        {Stage::ds, [](Units& u) { u.ds_capped = false; }},
        {Stage::p, [](Units& u) { u.lse_log_base = LogBase::two; }},
        {Stage::p, [](Units& u) { u.p_scale = 2; }},
        {Stage::s, [](Units& u) { u.s_scaled = false; }},
    };
    Problem problem = one_group(Mask::none);
    problem.logits_soft_cap = 3;
    const MemoryRecording run = recorded(make_call(problem, seed));
    for (const Case& wrong : cases) {
        Units units = run.units();
        wrong.declare(units);
        const Report report = judged(declared_as(run, run.problem(), units));
        EXPECT_EQ(report.guilty, wrong.blamed) << verdict_line(report);
    }
}

TEST(GradientPartialCapture, HealthyRunMatchesWhicheverStagesAreThere) {
    const std::vector<Stage> all = backward_stages();
    for (std::uint64_t arithmetic = 1; arithmetic <= 4; ++arithmetic) {
        const Problem problem = one_group(arithmetic % 2 == 0 ? Mask::causal : Mask::none);
        const Call call = make_call(problem, seed, random_arithmetic(problem, arithmetic));
        const MemoryRecording run = recorded(call);
        for (std::size_t i = 0; i < all.size(); ++i) {
            for (std::size_t j = i; j < all.size(); ++j) {
                const std::vector<Stage> stages = {all[i], all[j]};
                SCOPED_TRACE(names_of(stages) + describe(call));
                const Report report = judged(with_stages(run, stages));
                EXPECT_TRUE(matches(report));
                EXPECT_GT(report.stage(all[i]).tally.compared, 0);
                EXPECT_GT(report.stage(all[j]).tally.compared, 0);
            }
        }
        EXPECT_TRUE(matches(with_stages(run, {Stage::dq, Stage::dk, Stage::dv})));
    }
}

TEST(GradientPartialCapture, SomeTilesOfAStageAreEnough) {
    const MemoryRecording run = recorded(make_call(one_group(Mask::none), seed));
    const MemoryRecording some = copy_of(run, [](Stage stage, const TileId& tile) {
        return is_output(stage) || (tile.q_block + tile.kv_tile) % 2 == 1;
    });
    const Report report = judged(some);
    expect_everything_matches(report);
    MemoryRecording wrong =
        poked(some, Stage::dk, {0, 1, 0, 2}, 3, 4, peek(some, Stage::dk, {0, 1, 0, 2}, 3, 4) * 1.01f + 0.01f);
    EXPECT_EQ(judged(wrong).guilty, Stage::dk);
}

/// Where delta was dumped, o is not needed.
TEST(GradientPartialCapture, DeltaStandsForO) {
    const Call call = make_call(one_group(Mask::causal), seed);
    MemoryRecording run = recorded(call);
    run.remove_input(Input::o);
    const Report healthy = judged(run);
    EXPECT_TRUE(matches(healthy));
    EXPECT_EQ(healthy.stage(Stage::delta).tally.compared, 0) << "nothing tells what it should be";
    for (const Stage stage : {Stage::dp, Stage::ds, Stage::dq, Stage::dk, Stage::dv})
        EXPECT_GT(healthy.stage(stage).tally.compared, 0) << stage_info(stage).name;
    for (const Stage stage : {Stage::ds, Stage::dq, Stage::dk})
        EXPECT_TRUE(matches(with_stages(run, {Stage::delta, stage})));

    MemoryRecording wrong = recorded(call, {Mistake::ds_without_delta, 0, 2});
    wrong.remove_input(Input::o);
    const Report report = judged(wrong);
    EXPECT_EQ(report.guilty, Stage::ds) << verdict_line(report);
    EXPECT_GT(report.stage(Stage::dq).tally.inherited, 0);
    EXPECT_THROW(judged(with_stages(run, {Stage::ds, Stage::dq})), Error);
}

TEST(GradientPartialCapture, SelectedTileThatIsMissingIsUnwritten) {
    const MemoryRecording run = recorded(make_call(one_group(Mask::none), seed));
    for (const Stage stage : backward_stages()) {
        MemoryRecording recording = copy_of(run);
        recording.set_capture(everything_selected());
        recording.remove_tile(stage, {0, 1, 1, 2});
        const Report report = judged(recording);
        ASSERT_EQ(report.guilty, stage) << verdict_line(report);
        EXPECT_EQ(report.first_divergence->finding, Finding::unwritten);
        EXPECT_EQ(report.stage(stage).tally.tiles_missing, 1);
    }
}

}  // namespace
}  // namespace tilescope::test
