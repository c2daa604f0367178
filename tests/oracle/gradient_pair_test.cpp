// Two recordings of the backward pass against each other.

#include <gtest/gtest.h>

#include "dump/schema/error.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/gradient_checks.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 91;

/// The same inputs, computed in another way.
Call computed_as(Call call, Arithmetic arithmetic) {
    // lse is an input, and what it is to is declared with the arithmetic.
    arithmetic.lse_log_base = call.arithmetic.lse_log_base;
    arithmetic.dumps_unmasked_s = call.arithmetic.dumps_unmasked_s;
    call.arithmetic = std::move(arithmetic);
    call.problem.dtype_p = call.arithmetic.p_operand;
    call.problem.dtype_ds = call.arithmetic.ds_operand;
    return call;
}

Arithmetic other_order() {
    Arithmetic arithmetic;
    arithmetic.nest = LoopNest::two_passes;
    arithmetic.group_in_parts = arithmetic.reversed_blocks = true;
    arithmetic.softmax = Softmax::raw_exp2;
    arithmetic.dp_sum = arithmetic.dk_sum = Sum::pairwise;
    arithmetic.ds_scale = 0.25;
    return arithmetic;
}

TEST(GradientPair, SameRunTwiceMatches) {
    const MemoryRecording run = recorded(make_call(small_problem(Mask::causal, Direction::backward), seed));
    const Report report = judged(run, run);
    EXPECT_TRUE(matches(report));
    for (const Stage stage : backward_stages()) {
        EXPECT_GT(report.stage(stage).tally.compared, 0) << stage_info(stage).name;
        EXPECT_EQ(report.stage(stage).tally.max_abs, 0) << stage_info(stage).name;
    }
}

TEST(GradientPair, HonestArithmeticsMatchEachOther) {
    const Problem problem = small_problem(Mask::causal, Direction::backward);
    for (std::uint64_t i = 1; i <= 40; ++i) {
        const Call a = make_call(problem, seed + i, random_arithmetic(problem, i));
        const Call b = computed_as(a, random_arithmetic(problem, i + 1));
        SCOPED_TRACE(describe(a) + "\n" + describe(b));
        const Report report = judged(recorded(a), recorded(b));
        EXPECT_TRUE(matches(report));
        for (const Stage stage : backward_stages())
            EXPECT_GT(report.stage(stage).tally.compared, 0) << stage_info(stage).name;
    }
}

TEST(GradientPair, MistakeInEitherIsBlamedOnItsStage) {
    for (const Mistake mistake : mistakes_of(Direction::backward)) {
        SCOPED_TRACE(to_string(mistake));
        Problem problem =
            small_problem(mistake == Mistake::p_not_masked ? Mask::causal : Mask::none, Direction::backward);
        if (mistake == Mistake::ds_without_cap) problem.logits_soft_cap = 2;
        Arithmetic arithmetic;
        arithmetic.group_in_parts = true;
        arithmetic.dumps_unmasked_s = true;
        const Call call = make_call(problem, seed, arithmetic);
        const MemoryRecording wrong = recorded(call, {mistake, 1, 2});
        const MemoryRecording healthy = recorded(computed_as(call, other_order()));
        EXPECT_EQ(judged(wrong, healthy).guilty, stage_of(mistake));
        const Report swapped = judged(healthy, wrong);
        ASSERT_EQ(swapped.guilty, stage_of(mistake)) << verdict_line(swapped);
        EXPECT_EQ(swapped.first_divergence->tile.batch, 1);
    }
}

/// Without o nothing says what delta should be, but what follows from it is compared.
TEST(GradientPair, DeltaStandsForO) {
    Arithmetic lanes;
    lanes.delta_lanes = 8;
    const Call call = make_call(small_problem(Mask::none, Direction::backward), seed, lanes);
    Arithmetic in_order = other_order();
    in_order.delta_lanes = 1;
    MemoryRecording run = recorded(call);
    MemoryRecording healthy = recorded(computed_as(call, in_order));
    run.remove_input(Input::o);
    for (const bool both : {false, true}) {
        if (both) healthy.remove_input(Input::o);
        EXPECT_TRUE(matches(run, healthy));
        EXPECT_TRUE(matches(healthy, run));
        for (const auto mistake :
             {Mistake::ds_without_delta, Mistake::dq_tile_lost, Mistake::dk_without_last_block}) {
            MemoryRecording wrong = recorded(call, {mistake, 1, 2});
            wrong.remove_input(Input::o);
            EXPECT_EQ(judged(wrong, healthy).guilty, stage_of(mistake));
            EXPECT_EQ(judged(healthy, wrong).guilty, stage_of(mistake));
        }
    }
}

TEST(GradientPair, OtherInputsCannotBeCompared) {
    const MemoryRecording run = recorded(make_call(small_problem(Mask::none, Direction::backward), seed));
    for (const Input input : {Input::q, Input::v, Input::dout, Input::o, Input::lse}) {
        MemoryRecording other = copy_of(run);
        std::vector<float> values = whole_input(run, input);
        values[7] += 1;
        other.set_input(input, values);
        EXPECT_THROW(judged(run, other), Error) << int(input);
    }
}

}  // namespace
}  // namespace tilescope::test
