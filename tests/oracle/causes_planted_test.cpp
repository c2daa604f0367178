// Every mistake of the tables in plants.h, on the first input that shows it: blamed on its stage, and named.

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <optional>
#include <set>
#include <vector>

#include "oracle/report/text.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/planted_calls.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 19;

std::vector<const MistakeInfo*> every_mistake() {
    std::vector<const MistakeInfo*> all;
    for (const auto family : all_mistakes()) {
        for (const MistakeInfo& mistake : family) all.push_back(&mistake);
    }
    return all;
}

/// The run of the first input on which the mistake changes its stage before all others.
std::optional<KernelRun> run_that_shows(const MistakeInfo& mistake) {
    for (const PlantedInput& input : planted_inputs()) {
        const Call call = planted_call(mistake, input, planted_shapes()[0], seed);
        KernelRun healthy = run_kernel(call);
        KernelRun planted = run_kernel(call, {mistake.mistake});
        if (guilty_stages(healthy, planted) == std::vector{mistake.stage}) return planted;
    }
    return std::nullopt;
}

/// Whether a right answer is first, or tied with the first.
::testing::AssertionResult is_named(const MistakeInfo& mistake, const Recording& recording) {
    std::string named;
    for (const FoundCause& cause : first_causes(diagnosed(recording))) {
        if (std::ranges::find(mistake.causes, cause.name) != mistake.causes.end())
            return ::testing::AssertionSuccess();
        named += (named.empty() ? "" : ", ") + title_of(cause);
    }
    return ::testing::AssertionFailure() << mistake.name << ": named " << (named.empty() ? "none" : named);
}

class Planted : public ::testing::TestWithParam<const MistakeInfo*> {};

TEST_P(Planted, IsBlamedOnItsStageAndNamed) {
    const MistakeInfo& mistake = *GetParam();
    const std::optional<KernelRun> run = run_that_shows(mistake);
    ASSERT_TRUE(run) << "no input shows it; seed " << seed;
    const Report report = judged(run->recording);
    EXPECT_EQ(report.guilty, mistake.stage) << verdict_line(report) << "; seed " << seed;
    EXPECT_TRUE(is_named(mistake, run->recording)) << "; seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(Mistakes, Planted, ::testing::ValuesIn(every_mistake()),
                         [](const auto& param) { return std::string(param.param->name); });

/// Runs in which units, masks or descales once hid a mistake from the search.
struct HardCase {
    std::string_view mistake;
    std::string_view input;
    std::string_view shape;
    std::uint64_t seed;
};

void PrintTo(const HardCase& hard, std::ostream* out) {
    *out << hard.mistake << " on " << hard.input << " " << hard.shape;
}

constexpr HardCase hard_cases[] = {
    {"cap_missing", "ramped_k", "40x65", 54848},
    {"uncast_p_multiplied", "normal", "40x65", 121040},
    {"half_accumulator", "normal", "40x65", 107600},
    {"l_of_cast_p", "hidden_rows", "40x65", 96656},
    {"mask_tile_local", "normal", "40x65", 48080},
    {"mask_off_by_one", "small_window", "40x65", 6320},
    {"causal_bottom_right", "cap_and_alibi", "40x65", 45104},
    {"scores_times_log2e", "bias", "40x65", 36960},
    {"scores_times_odd_number", "bias", "70x47", 39904},
    {"scores_summed_in_half", "cap_and_alibi", "40x65", 65264},
    {"scores_summed_in_half", "bias", "40x65", 65312},
    {"score_columns_permuted", "small_window", "40x65", 69680},
    {"kv_head_modulo", "descales", "40x65", 21968},
    {"kv_of_first_batch", "descales", "40x65", 23888},
    {"k_rounded_to_e4m3", "huge", "40x65", 30176},
    {"tail_of_zeros", "hidden_rows", "40x65", 52496},
    {"tail_stale", "descales", "40x65", 251648},
    {"tail_of_next_rows", "ties", "70x47", 55048},
    {"p_of_tile_before", "group_of_five", "40x65", 114944},
    {"o_not_normalised", "splits", "40x65", 12416},
    {"o_normalised_twice", "splits", "40x65", 13376},
    {"lse_sign", "causal", "70x47", 138808},
    {"s_stripes_unwritten", "small_window", "70x47", 139816},
    {"s_of_one_warp_wrong", "small_window", "33x100", 144632},
    {"p_of_one_head_wrong", "causal", "70x47", 145528},
    {"s_of_one_batch_wrong", "hidden_rows", "33x100", 146648},
    {"acc_of_one_tile_wrong", "small_window", "40x65", 146480},
};

template <class Rows>
const auto& row_named(const Rows& rows, std::string_view name) {
    return *std::ranges::find(rows, name, [](const auto& row) { return row.name; });
}

class Hard : public ::testing::TestWithParam<HardCase> {};

TEST_P(Hard, IsNamed) {
    const auto& [name, input, shape, input_seed] = GetParam();
    const std::vector<const MistakeInfo*> all = every_mistake();
    const MistakeInfo& mistake =
        **std::ranges::find(all, name, [](const MistakeInfo* row) { return row->name; });
    const Call call = planted_call(mistake, row_named(planted_inputs(), input),
                                   row_named(planted_shapes(), shape), input_seed);
    const KernelRun run = run_kernel(call, {mistake.mistake});
    EXPECT_TRUE(is_named(mistake, run.recording)) << "; seed " << input_seed;
}

INSTANTIATE_TEST_SUITE_P(Runs, Hard, ::testing::ValuesIn(hard_cases), [](const auto& param) {
    return fmt::format("{}_on_{}_{}", param.param.mistake, param.param.input, param.index);
});

TEST(PlantedMistakes, HaveOneRowEachAndCauses) {
    std::set<Mistake> seen;
    for (const MistakeInfo* mistake : every_mistake()) {
        EXPECT_TRUE(seen.insert(mistake->mistake).second) << mistake->name;
        EXPECT_FALSE(mistake->causes[0].empty()) << mistake->name;
        EXPECT_EQ(mistake_info(mistake->mistake).name, mistake->name);
    }
    EXPECT_EQ(seen.size(), std::size_t(Mistake::o_truncated));
}

}  // namespace
}  // namespace tilescope::test
