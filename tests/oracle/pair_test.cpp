// Two recordings against each other.

#include <gtest/gtest.h>

#include "dump/schema/error.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 51;
constexpr TileId some_tile{1, 2, 1, 2};

MemoryRecording run_with(const Arithmetic& arithmetic, const Plant& plant = {}) {
    const Problem problem = small_problem(Mask::causal);
    return recorded(make_call(problem, seed, arithmetic), plant);
}

std::string why_unjudged(const Recording& a, const Recording& b) {
    try {
        judged(a, b);
    } catch (const Error& error) {
        return error.what();
    }
    return "judged";
}

TEST(Pair, SameRunTwiceMatches) {
    const MemoryRecording run = run_with({});
    const Report report = judged(run, run);
    EXPECT_TRUE(matches(report));
    EXPECT_GT(report.compared(), 0);
    EXPECT_TRUE(report.drift.empty());
    for (const StageInfo& info : stages_of(Direction::forward))
        EXPECT_EQ(report.stage(info.stage).tally.max_abs, 0) << info.name;
}

TEST(Pair, HonestArithmeticsMatchEachOther) {
    for (std::uint64_t i = 1; i <= 40; ++i) {
        Arithmetic a = random_arithmetic(i);
        Arithmetic b = random_arithmetic(i + 1);
        a.kv_order = b.kv_order = i % 2 == 0 ? KvOrder::forward : KvOrder::reverse;
        b.dumps_unmasked_s = a.dumps_unmasked_s;
        b.p_operand = a.p_operand;
        b.pv_sum = a.pv_sum;
        b.dumps_cast_p = a.dumps_cast_p;
        SCOPED_TRACE(describe(a) + "\n" + describe(b));
        EXPECT_TRUE(matches(run_with(a), run_with(b)));
    }
}

TEST(Pair, MistakeInEitherIsBlamedOnItsStage) {
    Arithmetic other_units;
    other_units.softmax = Softmax::raw_exp2;
    other_units.score_sum = Sum::pairwise;
    const MemoryRecording healthy = run_with(other_units);
    for (const Mistake mistake : mistakes_of(Direction::forward)) {
        SCOPED_TRACE(to_string(mistake));
        const MemoryRecording wrong =
            run_with({}, {mistake, 1, 2, -1, mistake == Mistake::stale_k_tile ? 2 : 0});
        EXPECT_EQ(judged(wrong, healthy).guilty, stage_of(mistake));
        const Report swapped = judged(healthy, wrong);
        ASSERT_EQ(swapped.guilty, stage_of(mistake));
        EXPECT_EQ(swapped.first_divergence->tile.head, 2);
    }
}

TEST(Pair, WhatIsNotANumberInOneDivergesInEitherOrder) {
    const MemoryRecording healthy = run_with({});
    for (const StageInfo& info : stages_of(Direction::forward)) {
        for (const float value : {nan, unwritten}) {
            SCOPED_TRACE(std::string(info.name) + (value == unwritten ? " unwritten" : " NaN"));
            MemoryRecording wrong = poked(healthy, info.stage, some_tile, 3, 0, value);
            for (const bool swapped : {false, true}) {
                const Report report = swapped ? judged(healthy, wrong) : judged(wrong, healthy);
                ASSERT_EQ(report.guilty, info.stage) << verdict_line(report);
                const StageTally& tally = report.stage(info.stage).tally;
                EXPECT_EQ(tally.nan, is_unwritten(value) ? 0 : 1);
                EXPECT_EQ(tally.unwritten, is_unwritten(value) ? 1 : 0);
            }
            EXPECT_TRUE(matches(wrong, wrong));
        }
    }
}

TEST(Pair, TileThatOneOfThemLacksIsUnwritten) {
    MemoryRecording a = run_with({});
    MemoryRecording b = run_with({});
    b.remove_tile(Stage::l, some_tile);
    EXPECT_TRUE(matches(a, b)) << "neither says what was asked for";
    CaptureSummary capture = everything_selected();
    a.set_capture(capture);
    b.set_capture(capture);
    for (const bool swapped : {false, true}) {
        const Report report = swapped ? judged(b, a) : judged(a, b);
        ASSERT_EQ(report.guilty, Stage::l);
        EXPECT_EQ(report.first_divergence->finding, Finding::unwritten);
        EXPECT_EQ(report.stage(Stage::l).tally.tiles_missing, 1);
    }
    capture.selection = parse_selection("kv_tile=0,1", "test");
    b.set_capture(capture);
    EXPECT_TRUE(matches(a, b)) << "the other was not asked for it";
}

/// m, p, l and acc after a tile depend on the tiles before it; what they lead to does not.
TEST(Pair, OtherKvOrderComparesWhatDoesNotDependOnIt) {
    Arithmetic reverse;
    reverse.kv_order = KvOrder::reverse;
    const MemoryRecording forward = run_with({});
    const Report report = judged(forward, run_with(reverse));
    EXPECT_TRUE(matches(report));
    for (const Stage stage : {Stage::m, Stage::p, Stage::l, Stage::acc})
        EXPECT_EQ(report.stage(stage).tally.compared, 0);
    for (const Stage stage : {Stage::k, Stage::s, Stage::o, Stage::lse})
        EXPECT_GT(report.stage(stage).tally.compared, 0);
    ASSERT_EQ(report.warnings.size(), 1u);
    EXPECT_NE(report.warnings[0].find("order"), std::string::npos);
    const MemoryRecording wrong = run_with(reverse, {Mistake::o_normalised_twice, 0, 0, -1, 0});
    EXPECT_EQ(judged(forward, wrong).guilty, Stage::o);
}

TEST(Pair, RunThatEndedWithAnErrorIsNeverAMatch) {
    const MemoryRecording healthy = run_with({});
    MemoryRecording ended = run_with({});
    CaptureSummary capture;
    capture.ended = "a trap";
    ended.set_capture(capture);
    EXPECT_NE(why_unjudged(ended, healthy).find("a trap"), std::string::npos);
    EXPECT_NE(why_unjudged(healthy, ended).find("a trap"), std::string::npos);
}

TEST(Pair, OnlyRunsOfTheSameProblemAndInputsCompare) {
    const MemoryRecording run = run_with({});
    Problem problem = run.problem();
    problem.sm_scale = 0.5;
    const MemoryRecording other_scale = recorded(make_call(problem, seed));
    EXPECT_NE(why_unjudged(run, other_scale).find("/problem differs"), std::string::npos);

    problem = run.problem();
    for (const Input input : {Input::q, Input::k, Input::v}) {
        Inputs inputs = make_inputs(problem, InputKind::normal, seed);
        (input == Input::q ? inputs.q : input == Input::k ? inputs.k : inputs.v).back() += 1;
        const MemoryRecording other = recorded({problem, {}, inputs});
        EXPECT_NE(why_unjudged(run, other).find("/inputs/"), std::string::npos);
    }
    EXPECT_NE(why_unjudged(with_stages(run, {Stage::s}), with_stages(run, {Stage::p})).find("no tile"),
              std::string::npos);
}

}  // namespace
}  // namespace tilescope::test
