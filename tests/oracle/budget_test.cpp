// The budgets hold for honest arithmetic, whichever it is, and are not so wide that they mean nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "oracle/judge.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

/// The largest |got - expected| / tolerance of each stage.
struct Ratios {
    std::array<double, stage_count> largest{};

    void add(Stage stage, const MatrixF& got, const Estimate& expected) {
        double& ratio = largest[std::size_t(stage)];
        for (Eigen::Index i = 0; i < got.size(); ++i) {
            const double difference = std::abs(double(got.data()[i]) - expected.value.data()[i]);
            if (difference > 0) ratio = std::max(ratio, difference / expected.error.data()[i]);
        }
    }
};

struct Judged {
    Report report;
    Ratios ratios;
};

Judged judge_with_ratios(const Recording& recording) {
    Judged judged;
    JudgeOptions options = one_thread();
    options.observe = [&](Stage stage, const TileId&, const MatrixF& got, const Estimate& expected) {
        judged.ratios.add(stage, got, expected);
    };
    judged.report = judge(recording, options);
    return judged;
}

void expect_clean(const Report& report) {
    EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
    for (const StageInfo& info : all_stages()) {
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

class HonestRuns : public ::testing::TestWithParam<InputKind> {};

TEST_P(HonestRuns, StayWithinEveryBudgetAndUseIt) {
    constexpr std::uint64_t runs = 70;
    Ratios all;
    for (std::uint64_t run = 0; run < runs; ++run) {
        const std::uint64_t seed = run * input_kinds + std::uint64_t(GetParam());
        const Problem problem = random_problem(seed);
        const Arithmetic arithmetic = random_arithmetic(seed);
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(problem) + "; " + describe(arithmetic));
        const KernelRun kernel = run_kernel(problem, arithmetic, make_inputs(problem, GetParam(), seed));
        const Judged judged = judge_with_ratios(kernel.recording);
        expect_clean(judged.report);
        for (const StageInfo& info : all_stages()) {
            double& largest = all.largest[std::size_t(info.stage)];
            largest = std::max(largest, judged.ratios.largest[std::size_t(info.stage)]);
        }
    }
    for (const StageInfo& info : all_stages()) {
        const double largest = all.largest[std::size_t(info.stage)];
        if (is_operand(info.stage)) {
            EXPECT_EQ(largest, 0) << info.name;
        } else {
            EXPECT_LE(largest, 1) << info.name;
            EXPECT_GT(largest, 1e-4) << info.name << " has a budget that no arithmetic comes near";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Budget, HonestRuns,
                         ::testing::Values(InputKind::normal, InputKind::ramped_k, InputKind::large,
                                           InputKind::negative, InputKind::ties, InputKind::tiny),
                         [](const auto& param) { return std::string(to_string(param.param)); });

}  // namespace
}  // namespace tilescope::test
