// Two recordings against each other.

#include <gtest/gtest.h>

#include "dump/schema/error.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"
#include "tests/support/error_of.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 51;
constexpr TileId some_tile{1, 1, 1, 2};

MemoryRecording run_of(Direction direction, const Arithmetic& arithmetic = {}, const Plant& plant = {}) {
    return recorded(make_call(small_problem(Mask::causal, direction), seed, arithmetic), plant);
}

/// The same call in another arithmetic, whose tiles can be compared.
Call computed_as(Call call, Arithmetic arithmetic) {
    const Arithmetic& own = call.arithmetic;
    arithmetic.dumps_unmasked_s = own.dumps_unmasked_s;
    if (call.problem.direction == Direction::forward) {
        arithmetic.kv_order = own.kv_order;
        arithmetic.p_operand = own.p_operand;
        arithmetic.pv_sum = own.pv_sum;
        arithmetic.dumps_cast_p = own.dumps_cast_p;
    } else {
        // lse is an input, and what it is to is declared with the arithmetic.
        arithmetic.lse_log_base = own.lse_log_base;
    }
    call.arithmetic = std::move(arithmetic);
    return call;
}

Arithmetic other_units_and_orders() {
    Arithmetic arithmetic;
    arithmetic.softmax = Softmax::raw_exp2;
    arithmetic.score_sum = arithmetic.dp_sum = arithmetic.dk_sum = Sum::pairwise;
    arithmetic.nest = LoopNest::two_passes;
    arithmetic.group_in_parts = arithmetic.reversed_blocks = true;
    arithmetic.ds_scale = 0.25;
    return arithmetic;
}

/// Of both orders in turn.
template <class Expect>
void in_either_order(const Recording& a, const Recording& b, const Expect& expect) {
    expect(judged(a, b));
    expect(judged(b, a));
}

class Pair : public BothPasses {};

TEST_P(Pair, SameRunTwiceMatches) {
    const MemoryRecording run = run_of(direction());
    const Report report = judged(run, run);
    EXPECT_TRUE(all_match(report));
    EXPECT_TRUE(report.drift.empty());
    for (const StageInfo& info : stages()) EXPECT_EQ(report.stage(info.stage).tally.max_abs, 0) << info.name;
}

TEST_P(Pair, HonestArithmeticsMatchEachOther) {
    const Problem problem = small_problem(Mask::causal, direction());
    for (std::uint64_t i = 1; i <= 40; ++i) {
        Arithmetic arithmetic = random_arithmetic(problem, i);
        arithmetic.kv_order = i % 2 == 0 ? KvOrder::forward : KvOrder::reverse;
        const Call a = make_call(problem, seed + i, arithmetic);
        const Call b = computed_as(a, random_arithmetic(problem, i + 1));
        SCOPED_TRACE(describe(a) + "\n" + describe(b));
        EXPECT_TRUE(all_match(judged(recorded(a), recorded(b))));
    }
}

TEST_P(Pair, MistakeInEitherIsBlamedOnItsStage) {
    for (const Mistake mistake : mistakes_of(direction())) {
        SCOPED_TRACE(to_string(mistake));
        const Call call = call_that_shows(mistake, direction(), seed);
        const MemoryRecording healthy = recorded(computed_as(call, other_units_and_orders()));
        in_either_order(recorded(call, planted(mistake)), healthy, [&](const Report& report) {
            ASSERT_EQ(report.guilty, stage_of(mistake)) << verdict_line(report);
            EXPECT_EQ(report.first_divergence->tile.batch, 1);
            EXPECT_EQ(report.first_divergence->tile.head, planted_head(call.problem, *report.guilty));
        });
    }
}

TEST_P(Pair, WhatIsNotANumberInOneDivergesInEitherOrder) {
    const MemoryRecording healthy = run_of(direction());
    for (const StageInfo& info : stages()) {
        for (const float value : {nan, unwritten}) {
            SCOPED_TRACE(std::string(info.name) + (is_unwritten(value) ? " unwritten" : " NaN"));
            const MemoryRecording wrong = poked(healthy, info.stage, some_tile, 3, 0, value);
            in_either_order(wrong, healthy, [&](const Report& report) {
                ASSERT_EQ(report.guilty, info.stage) << verdict_line(report);
                const StageTally& tally = report.stage(info.stage).tally;
                EXPECT_EQ(tally.nan, is_unwritten(value) ? 0 : 1);
                EXPECT_EQ(tally.unwritten, is_unwritten(value) ? 1 : 0);
            });
            EXPECT_TRUE(matches(wrong, wrong));
        }
    }
}

TEST_P(Pair, TileThatOneOfThemLacksIsUnwritten) {
    const Stage stage = is_forward() ? Stage::l : Stage::ds;
    MemoryRecording a = run_of(direction());
    MemoryRecording b = copy_of(a);
    b.remove_tile(stage, some_tile);
    EXPECT_TRUE(matches(a, b)) << "neither says what was asked for";
    CaptureSummary capture = everything_selected();
    a.set_capture(capture);
    b.set_capture(capture);
    in_either_order(a, b, [&](const Report& report) {
        ASSERT_EQ(report.guilty, stage);
        EXPECT_EQ(report.first_divergence->finding, Finding::unwritten);
        EXPECT_EQ(report.stage(stage).tally.tiles_missing, 1);
    });
    capture.selection = parse_selection("kv_tile=0,1", "test");
    b.set_capture(capture);
    EXPECT_TRUE(matches(a, b)) << "the other was not asked for it";
}

TEST_P(Pair, RunThatEndedWithAnErrorIsNeverAMatch) {
    const MemoryRecording healthy = run_of(direction());
    MemoryRecording ended = copy_of(healthy);
    CaptureSummary capture;
    capture.ended = "a trap";
    ended.set_capture(capture);
    EXPECT_NE(error_of([&] { judged(ended, healthy); }).find("a trap"), std::string::npos);
    EXPECT_NE(error_of([&] { judged(healthy, ended); }).find("a trap"), std::string::npos);
}

TEST_P(Pair, OnlyRunsOfTheSameProblemAndInputsCompare) {
    const MemoryRecording run = run_of(direction());
    const auto refusal = [&](const Recording& other) { return error_of([&] { judged(run, other); }); };
    Problem problem = run.problem();
    problem.sm_scale = 0.5;
    EXPECT_NE(refusal(recorded(make_call(problem, seed))).find("/problem differs"), std::string::npos);

    for (const Input input : {Input::q, Input::k, Input::v, Input::dout, Input::o, Input::lse}) {
        if (!run.has_input(input)) continue;
        std::vector<float> values = whole_input(run, input);
        values[7] += 1;
        MemoryRecording other = copy_of(run);
        other.set_input(input, values);
        EXPECT_NE(refusal(other).find("/inputs/"), std::string::npos) << int(input);
    }
    const MemoryRecording s = with_stages(run, {Stage::s});
    const MemoryRecording p = with_stages(run, {Stage::p});
    EXPECT_NE(error_of([&] { judged(s, p); }).find("no tile"), std::string::npos);
}

TILESCOPE_TEST_BOTH_PASSES(Pair);

/// m, p, l and acc after a tile depend on the tiles before it; what they lead to does not.
TEST(ForwardPair, OtherKvOrderComparesWhatDoesNotDependOnIt) {
    Arithmetic reverse;
    reverse.kv_order = KvOrder::reverse;
    const MemoryRecording forward = run_of(Direction::forward);
    const Report report = judged(forward, run_of(Direction::forward, reverse));
    EXPECT_TRUE(matches(report));
    for (const Stage stage : {Stage::m, Stage::p, Stage::l, Stage::acc})
        EXPECT_EQ(report.stage(stage).tally.compared, 0);
    for (const Stage stage : {Stage::k, Stage::s, Stage::o, Stage::lse})
        EXPECT_GT(report.stage(stage).tally.compared, 0);
    ASSERT_EQ(report.warnings.size(), 1u);
    EXPECT_NE(report.warnings[0].find("order"), std::string::npos);
    const MemoryRecording wrong =
        run_of(Direction::forward, reverse, {Mistake::o_normalised_twice, 0, 0, -1, 0});
    EXPECT_EQ(judged(forward, wrong).guilty, Stage::o);
}

/// Without o nothing says what delta should be, but what follows from it is compared.
TEST(BackwardPair, DeltaStandsForO) {
    Arithmetic lanes;
    lanes.delta_lanes = 8;
    const Call call = make_call(small_problem(Mask::none, Direction::backward), seed, lanes);
    Arithmetic in_order = other_units_and_orders();
    in_order.delta_lanes = 1;
    MemoryRecording run = recorded(call);
    MemoryRecording healthy = recorded(computed_as(call, in_order));
    run.remove_input(Input::o);
    for (const bool both : {false, true}) {
        if (both) healthy.remove_input(Input::o);
        in_either_order(run, healthy, [](const Report& report) { EXPECT_TRUE(matches(report)); });
        for (const auto mistake :
             {Mistake::ds_without_delta, Mistake::dq_tile_lost, Mistake::dk_without_last_block}) {
            MemoryRecording wrong = recorded(call, planted(mistake));
            wrong.remove_input(Input::o);
            in_either_order(wrong, healthy, [&](const Report& report) {
                EXPECT_EQ(report.guilty, stage_of(mistake)) << verdict_line(report);
            });
        }
    }
}

}  // namespace
}  // namespace tilescope::test
