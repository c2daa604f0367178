// Two recordings of the backward pass against each other.

#include <gtest/gtest.h>

#include "dump/schema/error.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/gradient_checks.h"
#include "tests/oracle/honest_backward.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 91;

/// The same inputs, computed in another way.
GradientCall computed_as(GradientCall call, GradientArithmetic arithmetic) {
    // lse is an input, and what it is to is declared with the arithmetic.
    arithmetic.forward.lse_log_base = call.arithmetic.forward.lse_log_base;
    arithmetic.forward.dumps_unmasked_s = call.arithmetic.forward.dumps_unmasked_s;
    call.arithmetic = std::move(arithmetic);
    call.problem.dtype_p = call.arithmetic.forward.p_operand;
    call.problem.dtype_ds = call.arithmetic.ds_operand;
    return call;
}

GradientArithmetic other_order() {
    GradientArithmetic arithmetic;
    arithmetic.nest = LoopNest::two_passes;
    arithmetic.group_in_parts = arithmetic.reversed_blocks = true;
    arithmetic.forward.softmax = Softmax::raw_exp2;
    arithmetic.dp_sum = arithmetic.dk_sum = Sum::pairwise;
    arithmetic.ds_scale = 0.25;
    return arithmetic;
}

TEST(GradientPair, SameRunTwiceMatches) {
    const MemoryRecording run = run_backward(small_gradient_call(small_problem(Mask::causal), {}, seed));
    const Report report = judge_pair(run, run, one_thread());
    EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
    for (const Stage stage : backward_stages()) {
        EXPECT_GT(report.stage(stage).tally.compared, 0) << stage_info(stage).name;
        EXPECT_EQ(report.stage(stage).tally.max_abs, 0) << stage_info(stage).name;
    }
}

TEST(GradientPair, HonestArithmeticsMatchEachOther) {
    const Problem problem = small_problem(Mask::causal);
    for (std::uint64_t i = 1; i <= 40; ++i) {
        const GradientCall a = small_gradient_call(problem, random_gradient_arithmetic(problem, i), seed + i);
        const GradientCall b = computed_as(a, random_gradient_arithmetic(problem, i + 1));
        SCOPED_TRACE(describe(a) + "\n" + describe(b));
        const Report report = judge_pair(run_backward(a), run_backward(b), one_thread());
        EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
        for (const Stage stage : backward_stages())
            EXPECT_GT(report.stage(stage).tally.compared, 0) << stage_info(stage).name;
    }
}

TEST(GradientPair, MistakeInEitherIsBlamedOnItsStage) {
    for (int i = 1; i < gradient_mistakes; ++i) {
        const auto mistake = GradientMistake(i);
        SCOPED_TRACE(to_string(mistake));
        Problem problem = small_problem(mistake == GradientMistake::p_not_masked ? Mask::causal : Mask::none);
        if (mistake == GradientMistake::ds_without_cap) problem.logits_soft_cap = 2;
        GradientArithmetic arithmetic;
        arithmetic.group_in_parts = true;
        arithmetic.forward.dumps_unmasked_s = true;
        const GradientCall call = small_gradient_call(problem, arithmetic, seed);
        const MemoryRecording wrong = run_backward(call, {mistake, 1, 2, {}});
        const MemoryRecording healthy = run_backward(computed_as(call, other_order()));
        EXPECT_EQ(judge_pair(wrong, healthy, one_thread()).guilty, stage_of(mistake));
        const Report swapped = judge_pair(healthy, wrong, one_thread());
        ASSERT_EQ(swapped.guilty, stage_of(mistake)) << verdict_line(swapped);
        EXPECT_EQ(swapped.first_divergence->tile.batch, 1);
    }
}

/// Without o nothing says what delta should be, but what follows from it is compared.
TEST(GradientPair, DeltaStandsForO) {
    GradientArithmetic lanes;
    lanes.delta_lanes = 8;
    const GradientCall call = small_gradient_call(small_problem(), lanes, seed);
    GradientArithmetic in_order = other_order();
    in_order.delta_lanes = 1;
    MemoryRecording run = run_backward(call);
    MemoryRecording healthy = run_backward(computed_as(call, in_order));
    run.remove_input(Input::o);
    for (const bool both : {false, true}) {
        if (both) healthy.remove_input(Input::o);
        EXPECT_EQ(judge_pair(run, healthy, one_thread()).verdict, Verdict::match);
        EXPECT_EQ(judge_pair(healthy, run, one_thread()).verdict, Verdict::match);
        for (const auto mistake : {GradientMistake::ds_without_delta, GradientMistake::dq_tile_lost,
                                   GradientMistake::dk_without_last_block}) {
            MemoryRecording wrong = run_backward(call, {mistake, 1, 2, {}});
            wrong.remove_input(Input::o);
            EXPECT_EQ(judge_pair(wrong, healthy, one_thread()).guilty, stage_of(mistake));
            EXPECT_EQ(judge_pair(healthy, wrong, one_thread()).guilty, stage_of(mistake));
        }
    }
}

TEST(GradientPair, OtherInputsCannotBeCompared) {
    const MemoryRecording run = run_backward(small_gradient_call(small_problem(), {}, seed));
    for (const Input input : {Input::q, Input::v, Input::dout, Input::o, Input::lse}) {
        MemoryRecording other = copy_of(run);
        std::vector<float> values = whole_input(run, input);
        values[7] += 1;
        other.set_input(input, values);
        EXPECT_THROW(judge_pair(run, other, one_thread()), Error) << int(input);
    }
}

}  // namespace
}  // namespace tilescope::test
