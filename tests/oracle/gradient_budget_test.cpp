// The budgets of the backward pass hold for honest arithmetic, whichever it is, and are not so wide that they
// mean nothing.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <iostream>

#include "oracle/judge.h"
#include "tests/oracle/gradient_checks.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"
#include "tests/oracle/sharpness.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

/// |got - expected| / tolerance of the elements that are off at all, by stage.
using Ratios = std::array<std::vector<float>, stage_count>;

Report judge_with_ratios(const Recording& recording, Ratios& ratios) {
    JudgeOptions options = one_thread();
    options.observe = [&](Stage stage, const TileId&, const MatrixF& got, const Estimate& expected) {
        for (Eigen::Index i = 0; i < got.size(); ++i) {
            const double difference = std::abs(double(got.data()[i]) - expected.value.data()[i]);
            if (difference > 0 && std::isfinite(difference))
                ratios[std::size_t(stage)].push_back(float(difference / expected.error.data()[i]));
        }
    };
    return judge(recording, options);
}

float median(std::vector<float> values) {
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

TEST(HonestGradients, StayWithinEveryBudgetAndUseIt) {
    const std::uint64_t runs = tried_seeds(600);
    Ratios ratios;
    for (std::uint64_t seed = 0; seed < runs; ++seed) {
        const Call call = random_call(Direction::backward, seed);
        SCOPED_TRACE(how_to_repeat("HonestGradients*", seed, call));
        ASSERT_NO_THROW(validate(call.inputs.side, call.problem, "the call's inputs"));
        const MemoryRecording recording = recorded(call);
        EXPECT_TRUE(matches(judge_with_ratios(recording, ratios)));
    }
    for (const Stage stage : backward_stages()) {
        const std::vector<float>& of_stage = ratios[std::size_t(stage)];
        // A copy is exact.
        if (stage == Stage::dout) {
            EXPECT_TRUE(of_stage.empty());
            continue;
        }
        ASSERT_FALSE(of_stage.empty()) << stage_info(stage).name;
        const float largest = *std::ranges::max_element(of_stage);
        std::cout << stage_info(stage).name << ": " << of_stage.size() << " elements are off, by "
                  << median(of_stage) << " of their budget in the median and " << largest << " at most\n";
        EXPECT_LE(largest, 1) << stage_info(stage).name;
        EXPECT_GT(median(of_stage), 0.01)
            << stage_info(stage).name << " has a budget that no arithmetic comes near";
    }
}

/// Where a sum has one term, the products with the descales after it are most of what rounds.
TEST(HonestDescales, OfOperandsThatAreNotDequantisedRoundOnceMore) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        Problem problem = small_problem(Mask::causal, Direction::backward);
        problem.head_dim = problem.head_dim_v = 1;
        problem.dtype_q = problem.dtype_k = problem.dtype_v = Dtype::e4m3;
        problem.dtype_dq = problem.dtype_dk = problem.dtype_dv = Dtype::f32;
        Inputs inputs = make_inputs(problem, InputKind::normal, seed);
        inputs.side.descale_q = make_descale(problem, problem.heads, 3, 16, seed);
        inputs.side.descale_k = make_descale(problem, problem.heads_kv, 5, 16, seed);
        inputs.side.descale_v = make_descale(problem, problem.heads_kv, 5, 16, seed);
        Arithmetic arithmetic;
        for (Loading Arithmetic::*loading : {&Arithmetic::q, &Arithmetic::k, &Arithmetic::v})
            (arithmetic.*loading).dequantises = false;
        const Call call =
            gradient_call(problem, arithmetic, inputs, make_dout(problem, DoutKind::normal, seed));
        SCOPED_TRACE(how_to_repeat("HonestDescales*", seed, call));
        EXPECT_TRUE(matches(recorded(call)));
    }
}

/// Tensor cores cut off a little of the sum so far with every term, in whichever tile it was that it grew.
TEST(HonestSums, OfManySmallTilesOnALargeOne) {
    Problem problem = small_problem(Mask::none, Direction::backward);
    problem.batch = problem.heads = problem.heads_kv = 1;
    problem.seqlen_q = 960;
    problem.head_dim = problem.head_dim_v = 2;
    problem.dtype_dout = problem.dtype_dv = Dtype::f32;
    Arithmetic arithmetic;
    arithmetic.p_operand = Dtype::f16;
    arithmetic.dumps_cast_p = true;
    arithmetic.dv_sum = Sum::truncating_4;
    std::vector<float> dout(960 * 2, 0x1.234p-8f);
    dout[0] = dout[1] = 300;
    const Call call = gradient_call(problem, arithmetic, make_inputs(problem, InputKind::tiny, 1), dout);
    EXPECT_TRUE(matches(recorded(call)));
}

/// The mean of each column of an output, over all of its heads and rows.
std::vector<float> column_means(const Recording& recording, Stage stage) {
    const Problem& p = recording.problem();
    std::vector<double> sums(std::size_t(tile_shape(p, stage).cols), 0.0);
    double rows = 0;
    for (std::int64_t i = 0; i < tile_count(p, stage); ++i) {
        const TileId tile = tile_at(p, stage, i);
        const TileShape extent = tile_extent(p, stage, tile);
        for (std::int64_t row = 0; row < extent.rows; ++row) {
            for (std::int64_t col = 0; col < extent.cols; ++col)
                sums[std::size_t(col)] += double(peek(recording, stage, tile, row, col));
        }
        rows += double(extent.rows);
    }
    std::vector<float> means;
    for (const double sum : sums) means.push_back(float(sum / rows));
    return means;
}

TEST(GradientNullTest, NothingThatDoesNotDependOnTheInputsPasses) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        const MemoryRecording recording = recorded(backward_call_of_dtype(dtype, 4));
        for (const Stage stage : {Stage::dq, Stage::dk, Stage::dv}) {
            const std::vector<float> means = column_means(recording, stage);
            for (const char* replacement : {"zeros", "a constant", "column means"}) {
                MemoryRecording wrong = copy_of(recording);
                change_stage(wrong, stage, [&](float, const TileId&, std::int64_t, std::int64_t col) {
                    if (replacement[0] == 'z') return 0.0f;
                    return means[replacement[0] == 'a' ? 0 : std::size_t(col)];
                });
                SCOPED_TRACE(std::string(dtype_info(dtype).name) + ": " + replacement + " as " +
                             std::string(stage_info(stage).name));
                EXPECT_EQ(judged(wrong).guilty, stage);
                const Report alone = judged(with_stages(wrong, {stage}));
                EXPECT_EQ(alone.guilty, stage);
                EXPECT_GT(2 * alone.stage(stage).tally.outside, alone.stage(stage).tally.compared);
            }
        }
    }
}

}  // namespace
}  // namespace tilescope::test
