// A mistake planted in one stage of a backward kernel is blamed on that stage and its head, and what follows
// from it is inherited.

#include <gtest/gtest.h>

#include <vector>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/gradient_checks.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

/// Where a mistake shows: the stages that are wrong by themselves, the first of which is to blame, and those
/// that inherit it.
struct Case {
    Mistake mistake;
    std::vector<Stage> wrong;
    std::vector<Stage> inherited_by;
};

std::vector<Case> cases() {
    using enum Mistake;
    const std::vector<Stage> after_p = {Stage::ds, Stage::dq, Stage::dk, Stage::dv};
    const std::vector<Stage> after_ds = {Stage::dq, Stage::dk};
    return {
        {dout_of_next_block,
         {Stage::dout},
         {Stage::delta, Stage::dp, Stage::ds, Stage::dq, Stage::dk, Stage::dv}},
        {delta_of_next_o, {Stage::delta}, {Stage::ds, Stage::dq, Stage::dk}},
        {p_from_max, {Stage::p}, after_p},
        {lse_base_confused, {Stage::p}, after_p},
        {p_not_masked, {Stage::p}, after_p},
        {ds_without_delta, {Stage::ds}, after_ds},
        {ds_delta_of_next_row, {Stage::ds}, after_ds},
        {ds_without_p, {Stage::ds}, after_ds},
        {ds_without_cap, {Stage::ds}, after_ds},
        {dq_not_scaled, {Stage::dq}, {}},
        {dq_tile_lost, {Stage::dq}, {}},
        {dk_scaled_twice, {Stage::dk}, {}},
        {dk_of_wrong_heads, {Stage::dk}, {}},
        {dk_without_last_block, {Stage::dk}, {}},
        {tail_rows_counted, {Stage::dk, Stage::dv}, {}},
        {dv_untransposed, {Stage::dv}, {}},
    };
}

/// A call that can show the mistake.
Call call_for(Mistake mistake, std::uint64_t seed) {
    Problem problem =
        small_problem(mistake == Mistake::p_not_masked ? Mask::causal : Mask::none, Direction::backward);
    if (mistake == Mistake::ds_without_cap) problem.logits_soft_cap = 2;
    Arithmetic arithmetic = random_arithmetic(problem, seed);
    // Scores after the mask would show that it is missing.
    arithmetic.dumps_unmasked_s = mistake == Mistake::p_not_masked;
    arithmetic.reversed_blocks = false;
    arithmetic.dumps_uncapped_ds = false;
    if (mistake == Mistake::dk_of_wrong_heads) arithmetic.group_in_parts = true;
    return make_call(problem, seed, arithmetic);
}

/// Where P is dumped after its cast and ds takes it before, nothing dumped tells what ds was made of.
bool ds_is_out_of_sight(const Case& planted, const Arithmetic& a) {
    return stage_of(planted.mistake) == Stage::p && a.dumps_cast_p && a.p_operand != Dtype::f32 &&
           !a.ds_from_cast_p;
}

bool contains(const std::vector<Stage>& stages, Stage stage) {
    return std::ranges::find(stages, stage) != stages.end();
}

class GradientBlame : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(GradientBlame, FallsOnTheStageOfTheMistake) {
    for (const Case& planted : cases()) {
        const Call call = call_for(planted.mistake, GetParam());
        SCOPED_TRACE(std::string(to_string(planted.mistake)) + ", seed " + std::to_string(GetParam()) + ": " +
                     describe(call));
        const Report report = judged(recorded(call, {planted.mistake, 1, 2}));
        ASSERT_EQ(report.guilty, stage_of(planted.mistake)) << verdict_line(report);
        const Element& first = *report.first_divergence;
        EXPECT_EQ(first.tile.batch, 1);
        const bool of_keys = report.guilty == Stage::dk || report.guilty == Stage::dv;
        EXPECT_EQ(first.tile.head, of_keys ? call.problem.head_kv(2) : 2);
        for (const StageInfo& info : all_stages()) {
            const StageTally& tally = report.stage(info.stage).tally;
            if (info.stage == Stage::ds && ds_is_out_of_sight(planted, call.arithmetic)) continue;
            EXPECT_EQ(tally.outside > 0, contains(planted.wrong, info.stage)) << info.name;
            EXPECT_EQ(tally.inherited > 0, contains(planted.inherited_by, info.stage)) << info.name;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, GradientBlame, ::testing::Range<std::uint64_t>(1, 1 + tried_seeds(12)));

TEST(GradientBlameCases, CoverEveryMistake) {
    for (const Mistake mistake : mistakes_of(Direction::backward)) {
        const auto all = cases();
        EXPECT_TRUE(std::ranges::any_of(all, [&](const Case& c) { return c.mistake == mistake; }))
            << to_string(mistake);
    }
}

/// A mistake in the scores that the backward pass computes again is one of s, as in the forward pass.
TEST(GradientBlameOfScores, FallsOnS) {
    for (const Mistake mistake : {Mistake::mask_off_by_one, Mistake::scaled_twice}) {
        const Call call = make_call(small_problem(Mask::causal, Direction::backward), 5);
        const Plant plant{mistake, 1, 2};
        const Report report = judged(recorded(call, plant));
        EXPECT_EQ(report.guilty, Stage::s) << verdict_line(report);
        for (const Stage stage : {Stage::p, Stage::dp, Stage::ds, Stage::dq, Stage::dk, Stage::dv})
            EXPECT_EQ(report.stage(stage).tally.outside, 0) << stage_info(stage).name;
        for (const Stage stage : {Stage::p, Stage::ds, Stage::dq, Stage::dk, Stage::dv})
            EXPECT_GT(report.stage(stage).tally.inherited, 0) << stage_info(stage).name;
    }
}

/// With the outputs alone, or the stage alone, the mistake is found where it can be seen.
TEST(GradientBlameOfOutputs, IsFoundWithNothingElseCaptured) {
    for (const Case& planted : cases()) {
        const Call call = call_for(planted.mistake, 7);
        SCOPED_TRACE(to_string(planted.mistake));
        const MemoryRecording run = recorded(call, {planted.mistake, 1, 2});
        EXPECT_EQ(judged(with_stages(run, {stage_of(planted.mistake)})).guilty, stage_of(planted.mistake));
        const Report outputs = judged(with_stages(run, {Stage::dq, Stage::dk, Stage::dv}));
        ASSERT_TRUE(outputs.guilty);
        EXPECT_TRUE(is_output(*outputs.guilty));
    }
}

}  // namespace
}  // namespace tilescope::test
