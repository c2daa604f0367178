// Two recordings against each other.

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "dump/schema/error.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 51;
constexpr TileId some_tile{1, 2, 1, 2};

KernelRun run_with(const Arithmetic& arithmetic, const Plant& plant = {}) {
    const Problem problem = small_problem(Mask::causal);
    return run_kernel(problem, arithmetic, make_inputs(problem, InputKind::normal, seed), plant);
}

std::string why_unjudged(const Recording& a, const Recording& b) {
    try {
        judge_pair(a, b, one_thread());
    } catch (const Error& error) {
        return error.what();
    }
    return "judged";
}

TEST(Pair, SameRunTwiceMatches) {
    const KernelRun run = run_with({});
    const Report report = judge_pair(run.recording, run.recording, one_thread());
    EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
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
        const Report report = judge_pair(run_with(a).recording, run_with(b).recording, one_thread());
        EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
    }
}

TEST(Pair, MistakeInEitherIsBlamedOnItsStage) {
    Arithmetic other_units;
    other_units.softmax = Softmax::raw_exp2;
    other_units.score_sum = Sum::pairwise;
    const KernelRun healthy = run_with(other_units);
    for (int i = 1; i < mistakes; ++i) {
        const auto mistake = Mistake(i);
        SCOPED_TRACE(to_string(mistake));
        const KernelRun wrong = run_with({}, {mistake, 1, 2, -1, mistake == Mistake::stale_k_tile ? 2 : 0});
        EXPECT_EQ(judge_pair(wrong.recording, healthy.recording, one_thread()).guilty, stage_of(mistake));
        const Report swapped = judge_pair(healthy.recording, wrong.recording, one_thread());
        ASSERT_EQ(swapped.guilty, stage_of(mistake));
        EXPECT_EQ(swapped.first_divergence->tile.head, 2);
    }
}

TEST(Pair, WhatIsNotANumberInOneDivergesInEitherOrder) {
    const KernelRun healthy = run_with({});
    const float unwritten = std::bit_cast<float>(unwritten_bits);
    for (const StageInfo& info : stages_of(Direction::forward)) {
        for (const float value : {std::numeric_limits<float>::quiet_NaN(), unwritten}) {
            SCOPED_TRACE(std::string(info.name) + (value == unwritten ? " unwritten" : " NaN"));
            MemoryRecording wrong = copy_of(healthy.recording);
            poke(wrong, info.stage, some_tile, 3, 0, value);
            for (const bool swapped : {false, true}) {
                const Report report = swapped ? judge_pair(healthy.recording, wrong, one_thread())
                                              : judge_pair(wrong, healthy.recording, one_thread());
                ASSERT_EQ(report.guilty, info.stage) << verdict_line(report);
                const StageTally& tally = report.stage(info.stage).tally;
                EXPECT_EQ(tally.nan, is_unwritten(value) ? 0 : 1);
                EXPECT_EQ(tally.unwritten, is_unwritten(value) ? 1 : 0);
            }
            EXPECT_EQ(judge_pair(wrong, wrong, one_thread()).verdict, Verdict::match);
        }
    }
}

TEST(Pair, TileThatOneOfThemLacksIsUnwritten) {
    KernelRun a = run_with({});
    KernelRun b = run_with({});
    b.recording.remove_tile(Stage::l, some_tile);
    EXPECT_EQ(judge_pair(a.recording, b.recording, one_thread()).verdict, Verdict::match)
        << "neither says what was asked for";
    CaptureSummary capture;
    capture.selection = Selection();
    a.recording.set_capture(capture);
    b.recording.set_capture(capture);
    for (const bool swapped : {false, true}) {
        const Report report = swapped ? judge_pair(b.recording, a.recording, one_thread())
                                      : judge_pair(a.recording, b.recording, one_thread());
        ASSERT_EQ(report.guilty, Stage::l);
        EXPECT_EQ(report.first_divergence->finding, Finding::unwritten);
        EXPECT_EQ(report.stage(Stage::l).tally.tiles_missing, 1);
    }
    capture.selection = parse_selection("kv_tile=0,1", "test");
    b.recording.set_capture(capture);
    EXPECT_EQ(judge_pair(a.recording, b.recording, one_thread()).verdict, Verdict::match)
        << "the other was not asked for it";
}

/// m, p, l and acc after a tile depend on the tiles before it; what they lead to does not.
TEST(Pair, OtherKvOrderComparesWhatDoesNotDependOnIt) {
    Arithmetic reverse;
    reverse.kv_order = KvOrder::reverse;
    const KernelRun forward = run_with({});
    const Report report = judge_pair(forward.recording, run_with(reverse).recording, one_thread());
    EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
    for (const Stage stage : {Stage::m, Stage::p, Stage::l, Stage::acc})
        EXPECT_EQ(report.stage(stage).tally.compared, 0);
    for (const Stage stage : {Stage::k, Stage::s, Stage::o, Stage::lse})
        EXPECT_GT(report.stage(stage).tally.compared, 0);
    ASSERT_EQ(report.warnings.size(), 1u);
    EXPECT_NE(report.warnings[0].find("order"), std::string::npos);
    const KernelRun wrong = run_with(reverse, {Mistake::o_normalised_twice, 0, 0, -1, 0});
    EXPECT_EQ(judge_pair(forward.recording, wrong.recording, one_thread()).guilty, Stage::o);
}

TEST(Pair, RunThatEndedWithAnErrorIsNeverAMatch) {
    const KernelRun healthy = run_with({});
    KernelRun ended = run_with({});
    CaptureSummary capture;
    capture.ended = "a trap";
    ended.recording.set_capture(capture);
    EXPECT_NE(why_unjudged(ended.recording, healthy.recording).find("a trap"), std::string::npos);
    EXPECT_NE(why_unjudged(healthy.recording, ended.recording).find("a trap"), std::string::npos);
}

TEST(Pair, OnlyRunsOfTheSameProblemAndInputsCompare) {
    const KernelRun run = run_with({});
    Problem problem = run.recording.problem();
    problem.sm_scale = 0.5;
    const KernelRun other_scale = run_kernel(problem, {}, make_inputs(problem, InputKind::normal, seed));
    EXPECT_NE(why_unjudged(run.recording, other_scale.recording).find("/problem differs"), std::string::npos);

    problem = run.recording.problem();
    for (const Input input : {Input::q, Input::k, Input::v}) {
        Inputs inputs = make_inputs(problem, InputKind::normal, seed);
        (input == Input::q ? inputs.q : input == Input::k ? inputs.k : inputs.v).back() += 1;
        const KernelRun other = run_kernel(problem, {}, inputs);
        EXPECT_NE(why_unjudged(run.recording, other.recording).find("/inputs/"), std::string::npos);
    }
    EXPECT_NE(why_unjudged(with_stages(run.recording, {Stage::s}), with_stages(run.recording, {Stage::p}))
                  .find("no tile"),
              std::string::npos);
}

}  // namespace
}  // namespace tilescope::test
