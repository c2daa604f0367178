// Every mistake of the tables in plants.h, on the first input that shows it: blamed on its stage.

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

#include "oracle/judge.h"
#include "tests/oracle/planted_calls.h"
#include "tests/oracle/recording_tools.h"

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
        KernelRun healthy = run_kernel(call.problem, call.arithmetic, call.inputs);
        KernelRun planted = run_kernel(call.problem, call.arithmetic, call.inputs, {mistake.mistake});
        if (guilty_stages(healthy, planted) == std::vector{mistake.stage}) return planted;
    }
    return std::nullopt;
}

class Planted : public ::testing::TestWithParam<const MistakeInfo*> {};

TEST_P(Planted, IsBlamedOnItsStage) {
    const MistakeInfo& mistake = *GetParam();
    const std::optional<KernelRun> run = run_that_shows(mistake);
    ASSERT_TRUE(run) << "no input shows it; seed " << seed;
    const Report report = judge(run->recording, one_thread());
    EXPECT_EQ(report.guilty, mistake.stage) << verdict_line(report) << "; seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(Mistakes, Planted, ::testing::ValuesIn(every_mistake()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST(PlantedMistakes, HaveOneRowEachAndCauses) {
    std::set<Mistake> seen;
    for (const MistakeInfo* mistake : every_mistake()) {
        EXPECT_TRUE(seen.insert(mistake->mistake).second) << mistake->name;
        EXPECT_FALSE(mistake->causes[0].empty()) << mistake->name;
        EXPECT_EQ(mistake_info(mistake->mistake).name, mistake->name);
    }
    EXPECT_EQ(seen.size(), std::size_t(Mistake::acc_of_one_tile_wrong));
}

}  // namespace
}  // namespace tilescope::test
