// A mistake planted in one stage is blamed on that stage and its head, in a forward kernel at the element it
// first changed, and what follows from it is inherited.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

/// A mistake and stages that must show that they inherited it, those of a backward kernel being all that do.
struct Case {
    Mistake mistake;
    std::vector<Stage> inherited_by;
    Mask mask = Mask::none;
    std::int64_t row = -1;
    std::int64_t from_tile = 0;
    std::vector<Stage> wrong_too = {};  ///< by themselves
};

std::vector<Case> cases_of(Direction direction) {
    using enum Mistake;
    using enum Stage;
    if (direction == Direction::forward) {
        return {
            {q_row_zeroed, {s, o}, Mask::none, 37},      {stale_k_tile, {s, p}, Mask::none, -1, 2},
            {stale_k_tile, {s}, Mask::causal, -1, 4},    {swapped_v_tile, {acc, o}, Mask::none, -1, 3},
            {mask_off_by_one, {p, l}, Mask::causal},     {mask_off_by_one, {p}, Mask::causal, 20, 3},
            {scaled_twice, {p, lse}, Mask::none, -1, 1}, {max_of_half_tile, {p, l}},
            {p_clamped, {acc, o}, Mask::causal, -1, 1},  {l_not_rescaled, {o, lse}, Mask::none, -1, 2},
            {acc_not_rescaled, {o}, Mask::none, -1, 1},  {o_not_normalised, {}, Mask::causal},
            {o_normalised_twice, {}, Mask::none, 33},    {lse_base_two, {}, Mask::causal},
        };
    }
    const std::vector<Stage> after_s = {p, ds, dq, dk, dv};
    const std::vector<Stage> after_p = {ds, dq, dk, dv};
    const std::vector<Stage> after_ds = {dq, dk};
    return {
        // Scores that the backward pass computes again.
        {mask_off_by_one, after_s, Mask::causal},
        {scaled_twice, after_s, Mask::causal},
        {dout_of_next_block, {delta, dp, ds, dq, dk, dv}},
        {delta_of_next_o, {ds, dq, dk}},
        {p_from_max, after_p},
        {lse_base_confused, after_p},
        {p_not_masked, after_p, Mask::causal},
        {ds_without_delta, after_ds},
        {ds_delta_of_next_row, after_ds},
        {ds_without_p, after_ds},
        {ds_without_cap, after_ds},
        {dq_not_scaled, {}},
        {dq_tile_lost, {}},
        {dk_scaled_twice, {}},
        {dk_of_wrong_heads, {}},
        {dk_without_last_block, {}},
        {tail_rows_counted, {}, Mask::none, -1, 0, {dv}},
        {dv_untransposed, {}},
    };
}

/// Whether nothing that is dumped tells what the stage was made of: of P once it is cast, what l added up, or
/// what ds took before.
bool is_out_of_sight(Stage stage, Mistake mistake, const Arithmetic& a) {
    if (stage == Stage::l) return mistake == Mistake::p_clamped && a.dumps_cast_p && !a.l_sums_cast_p;
    return stage == Stage::ds && stage_of(mistake) == Stage::p && a.dumps_cast_p &&
           a.p_operand != Dtype::f32 && !a.ds_from_cast_p;
}

bool contains(const std::vector<Stage>& stages, Stage stage) {
    return std::ranges::find(stages, stage) != stages.end();
}

void expect_first(const Report& report, const KernelRun& run) {
    const Element& first = *report.first_divergence;
    EXPECT_EQ(first.tile.batch, 1);
    EXPECT_EQ(first.tile.head, planted_head(report.problem, *report.guilty));
    if (report.problem.direction == Direction::backward) return;
    ASSERT_TRUE(run.first_changed()) << "the mistake changed nothing";
    EXPECT_EQ(first.tile.kv_tile, run.first_changed()->tile.kv_tile);
    EXPECT_EQ(first.tile.q_block, run.first_changed()->tile.q_block);
    EXPECT_EQ(first.row, run.first_changed()->row);
    EXPECT_EQ(first.col, run.first_changed()->col);
}

class Blame : public BothPasses {};

TEST_P(Blame, FallsOnTheStageOfTheMistakeAndWhereItIsFirst) {
    const std::uint64_t seeds = tried_seeds(is_forward() ? 20 : 12);
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        for (const Case& plant : cases_of(direction())) {
            const Call call = call_that_shows(plant.mistake, direction(), seed, seed, plant.mask);
            SCOPED_TRACE(std::string(to_string(plant.mistake)) + ", " + how_to_repeat(seed, call));
            const KernelRun run = run_kernel(call, {plant.mistake, 1, 2, plant.row, plant.from_tile});
            const Report report = judged(run.recording);
            ASSERT_EQ(report.guilty, stage_of(plant.mistake)) << verdict_line(report);
            expect_first(report, run);
            for (const StageInfo& info : stages()) {
                if (is_out_of_sight(info.stage, plant.mistake, call.arithmetic)) continue;
                const StageTally& tally = report.stage(info.stage).tally;
                const bool is_wrong = info.stage == report.guilty || contains(plant.wrong_too, info.stage);
                EXPECT_EQ(tally.outside > 0, is_wrong) << info.name;
                if (contains(plant.inherited_by, info.stage)) {
                    EXPECT_GT(tally.inherited, 0) << info.name;
                } else if (!is_forward() || info.stage < *report.guilty) {
                    EXPECT_EQ(tally.inherited, 0) << info.name;
                }
            }
        }
    }
}

TEST_P(Blame, CasesCoverEveryMistake) {
    const std::vector<Case> cases = cases_of(direction());
    for (const Mistake mistake : mistakes_of(direction()))
        EXPECT_TRUE(std::ranges::find(cases, mistake, &Case::mistake) != cases.end()) << to_string(mistake);
}

TILESCOPE_TEST_BOTH_PASSES(Blame);

}  // namespace
}  // namespace tilescope::test
