// A mistake planted in one stage is blamed on that stage, at the element it first changed, and what follows
// from it is inherited.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

/// Where a mistake is planted, and a stage that must show that it inherited it.
struct Case {
    Mistake mistake;
    Mask mask;
    Plant where;
    std::vector<Stage> inherited_by;
};

std::vector<Case> cases() {
    const auto at = [](Mistake mistake, std::int64_t row, std::int64_t from_tile) {
        return Plant{mistake, 1, 2, row, from_tile};
    };
    return {
        {Mistake::q_row_zeroed, Mask::none, at(Mistake::q_row_zeroed, 37, 0), {Stage::s, Stage::o}},
        {Mistake::stale_k_tile, Mask::none, at(Mistake::stale_k_tile, -1, 2), {Stage::s, Stage::p}},
        {Mistake::stale_k_tile, Mask::causal, at(Mistake::stale_k_tile, -1, 4), {Stage::s}},
        {Mistake::swapped_v_tile, Mask::none, at(Mistake::swapped_v_tile, -1, 3), {Stage::acc, Stage::o}},
        {Mistake::mask_off_by_one, Mask::causal, at(Mistake::mask_off_by_one, -1, 0), {Stage::p, Stage::l}},
        {Mistake::mask_off_by_one, Mask::causal, at(Mistake::mask_off_by_one, 20, 3), {Stage::p}},
        {Mistake::scaled_twice, Mask::none, at(Mistake::scaled_twice, -1, 1), {Stage::p, Stage::lse}},
        {Mistake::max_of_half_tile, Mask::none, at(Mistake::max_of_half_tile, -1, 0), {Stage::p, Stage::l}},
        {Mistake::p_clamped, Mask::causal, at(Mistake::p_clamped, -1, 1), {Stage::acc, Stage::o}},
        {Mistake::l_not_rescaled, Mask::none, at(Mistake::l_not_rescaled, -1, 2), {Stage::o, Stage::lse}},
        {Mistake::acc_not_rescaled, Mask::none, at(Mistake::acc_not_rescaled, -1, 1), {Stage::o}},
        {Mistake::o_not_normalised, Mask::causal, at(Mistake::o_not_normalised, -1, 0), {}},
        {Mistake::o_normalised_twice, Mask::none, at(Mistake::o_normalised_twice, 33, 0), {}},
        {Mistake::lse_base_two, Mask::causal, at(Mistake::lse_base_two, -1, 0), {}},
    };
}

/// What is left of P once it is cast does not tell what l added up.
bool l_is_out_of_sight(const Case& planted, const Arithmetic& arithmetic) {
    return planted.mistake == Mistake::p_clamped && arithmetic.dumps_cast_p && !arithmetic.l_sums_cast_p;
}

class Blame : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Blame, FallsOnTheStageOfTheMistakeAndItsFirstElement) {
    const std::uint64_t seed = GetParam();
    Arithmetic arithmetic = random_arithmetic(seed);
    // A factor of exp(0) = 1 + 2 ulp would make a forgotten rescaling visible, and yet too small to see.
    arithmetic.worst_exp = false;
    // Scores before the mask do not show the mask, and lse to the base two is right as it is.
    arithmetic.dumps_unmasked_s = false;
    arithmetic.lse_log_base = LogBase::e;
    for (const Case& planted : cases()) {
        const Problem problem = small_problem(planted.mask);
        SCOPED_TRACE(std::string(to_string(planted.mistake)) + ", seed " + std::to_string(seed) + ": " +
                     describe(arithmetic));
        const Inputs inputs = make_inputs(problem, InputKind::normal, seed);
        const KernelRun run = run_kernel({problem, arithmetic, inputs}, planted.where);
        ASSERT_TRUE(run.first_changed()) << "the mistake changed nothing";

        const Report report = judged(run.recording);
        ASSERT_EQ(report.guilty, stage_of(planted.mistake)) << verdict_line(report);
        const Element& first = *report.first_divergence;
        EXPECT_EQ(first.tile.kv_tile, run.first_changed()->tile.kv_tile);
        EXPECT_EQ(first.tile.batch, run.first_changed()->tile.batch);
        EXPECT_EQ(first.tile.head, run.first_changed()->tile.head);
        EXPECT_EQ(first.tile.q_block, run.first_changed()->tile.q_block);
        EXPECT_EQ(first.row, run.first_changed()->row);
        EXPECT_EQ(first.col, run.first_changed()->col);

        for (const StageInfo& info : stages_of(Direction::forward)) {
            const StageTally& tally = report.stage(info.stage).tally;
            if (info.stage < *report.guilty) {
                EXPECT_EQ(tally.inherited, 0) << info.name;
            }
            if (info.stage == *report.guilty ||
                (info.stage == Stage::l && l_is_out_of_sight(planted, arithmetic)))
                continue;
            EXPECT_EQ(tally.outside, 0) << info.name << " is guilty too";
        }
        for (const Stage stage : planted.inherited_by)
            EXPECT_GT(report.stage(stage).tally.inherited, 0) << stage_info(stage).name;
    }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, Blame, ::testing::Range<std::uint64_t>(1, 1 + tried_seeds(20)));

TEST(BlameCases, CoverEveryMistake) {
    for (const Mistake mistake : mistakes_of(Direction::forward)) {
        const auto all = cases();
        EXPECT_TRUE(std::ranges::any_of(all, [&](const Case& c) { return c.mistake == mistake; }))
            << to_string(mistake);
    }
}

}  // namespace
}  // namespace tilescope::test
