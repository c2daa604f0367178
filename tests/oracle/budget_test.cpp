// The budgets hold for honest arithmetic, whichever it is, and are not so wide that they mean nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "oracle/judge.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

/// |got - expected| / tolerance of the elements of a stage that are off at all.
struct Ratios {
    static constexpr int steps = 16;    ///< of a factor of two
    static constexpr int octaves = 40;  ///< below 1

    double largest = 0;
    std::int64_t count = 0;
    std::array<std::int64_t, steps * octaves + 1> histogram{};

    void add(const MatrixF& got, const Estimate& expected) {
        for (Eigen::Index i = 0; i < got.size(); ++i) {
            const double difference = std::abs(double(got.data()[i]) - expected.value.data()[i]);
            if (difference > 0) add(difference / expected.error.data()[i]);
        }
    }
    void add(double ratio) {
        largest = std::max(largest, ratio);
        const double below_one = -std::log2(std::clamp(ratio, std::exp2(-octaves), 1.0));
        ++histogram[std::size_t(below_one * steps)];
        ++count;
    }
    double median() const {
        std::int64_t above = 0;
        std::size_t bin = 0;
        while (bin + 1 < histogram.size() && 2 * (above += histogram[bin]) < count) ++bin;
        return std::exp2(-double(bin) / steps);
    }
};
using StageRatios = std::array<Ratios, stage_count>;

Report judge_with_ratios(const Recording& recording, StageRatios& ratios) {
    JudgeOptions options = one_thread();
    options.observe = [&](Stage stage, const TileId&, const MatrixF& got, const Estimate& expected) {
        ratios[std::size_t(stage)].add(got, expected);
    };
    return report_of(recording, options);
}

void expect_clean(const Report& report) {
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.unjudged, "");
    for (const StageInfo& info : stages_of(Direction::forward)) {
        const StageTally& tally = report.stage(info.stage).tally;
        EXPECT_TRUE(report.stage(info.stage).captured) << info.name;
        EXPECT_EQ(tally.outside, 0) << info.name;
        EXPECT_EQ(tally.inherited, 0) << info.name;
        EXPECT_EQ(tally.unwritten, 0) << info.name;
    }
}

bool is_operand(Stage stage) {
    return stage == Stage::q || stage == Stage::k || stage == Stage::v;
}

class HonestRuns : public ::testing::TestWithParam<InputKind> {
 protected:
    static void TearDownTestSuite() {
        for (const StageInfo& info : stages_of(Direction::forward)) {
            const Ratios& of_stage = ratios[std::size_t(info.stage)];
            std::cout << info.name << ": " << of_stage.count << " elements are off, by " << of_stage.median()
                      << " of their budget in the median and " << of_stage.largest << " at most\n";
        }
    }
    static void expect_within_budget() {
        for (const StageInfo& info : stages_of(Direction::forward)) {
            const double largest = ratios[std::size_t(info.stage)].largest;
            EXPECT_LE(largest, 1) << info.name;
            EXPECT_GT(largest, is_operand(info.stage) ? -1 : 1e-4)
                << info.name << " has a budget that no arithmetic comes near";
        }
    }
    static StageRatios ratios;
};
StageRatios HonestRuns::ratios;

TEST_P(HonestRuns, StayWithinEveryBudgetAndUseIt) {
    const std::uint64_t runs = tried_seeds(70);
    for (std::uint64_t run = 0; run < runs; ++run) {
        const std::uint64_t seed = run * input_kinds + std::uint64_t(GetParam());
        const Problem problem = random_problem(seed);
        const Arithmetic arithmetic = random_arithmetic(seed);
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(problem) + "; " + describe(arithmetic));
        const MemoryRecording kernel = recorded(make_call(problem, seed, arithmetic, GetParam()));
        expect_clean(judge_with_ratios(kernel, ratios));
    }
    expect_within_budget();
}

TEST_P(HonestRuns, StayWithinEveryBudgetWithEveryOption) {
    const std::uint64_t runs = tried_seeds(100);
    for (std::uint64_t run = 0; run < runs; ++run) {
        const std::uint64_t seed = 1000 + run * input_kinds + std::uint64_t(GetParam());
        const Call call = random_call(GetParam(), seed);
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(call));
        const MemoryRecording kernel = recorded(call);
        ASSERT_NO_THROW(validate(call.inputs.side, call.problem, "the call's inputs"));
        const Report report = judge_with_ratios(kernel, ratios);
        EXPECT_TRUE(matches(report));
        for (const StageInfo& info : stages_of(Direction::forward)) {
            EXPECT_EQ(report.stage(info.stage).tally.outside, 0) << info.name;
            EXPECT_EQ(report.stage(info.stage).tally.inherited, 0) << info.name;
        }
    }
    expect_within_budget();
}

INSTANTIATE_TEST_SUITE_P(Budget, HonestRuns,
                         ::testing::Values(InputKind::normal, InputKind::ramped_k, InputKind::large,
                                           InputKind::negative, InputKind::ties, InputKind::tiny),
                         [](const auto& param) { return std::string(to_string(param.param)); });

}  // namespace
}  // namespace tilescope::test
