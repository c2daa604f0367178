// The budgets hold for honest arithmetic, whichever it is, and are not so wide that they mean nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>

#include "oracle/formula/estimate.h"
#include "oracle/judge.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"
#include "tests/oracle/sharpness.h"
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
            if (difference > 0 && std::isfinite(difference)) add(difference / expected.error.data()[i]);
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

/// Calls of one kind, by their seeds.
struct Calls {
    std::string name;
    Direction direction;
    std::uint64_t count;
    std::uint64_t first_seed;
    std::uint64_t step;
    std::function<Call(std::uint64_t seed)> of_seed;
    bool is_judged = true;  ///< whatever the seed
    bool has_every_stage = false;
};

std::vector<Calls> all_calls() {
    std::vector<Calls> all;
    for (const InputKind kind : {InputKind::normal, InputKind::ramped_k, InputKind::large,
                                 InputKind::negative, InputKind::ties, InputKind::tiny}) {
        const std::string name(to_string(kind));
        const auto first = std::uint64_t(kind);
        const auto plain = [kind](std::uint64_t seed) {
            return make_call(random_problem(seed), seed, random_arithmetic(seed), kind);
        };
        const auto any = [kind](std::uint64_t seed) { return random_call(kind, seed); };
        all.push_back({name, Direction::forward, 70, first, input_kinds, plain, true, true});
        all.push_back(
            {name + "_with_every_option", Direction::forward, 100, 1000 + first, input_kinds, any, false});
    }
    const auto any = [](std::uint64_t seed) { return random_call(Direction::backward, seed); };
    all.push_back({"backward", Direction::backward, 600, 0, 1, any});
    return all;
}

void PrintTo(const Calls& calls, std::ostream* out) {
    *out << calls.name;
}

bool is_operand(Stage stage) {
    return stage == Stage::q || stage == Stage::k || stage == Stage::v;
}

class HonestRuns : public ::testing::TestWithParam<Calls> {
 protected:
    static void TearDownTestSuite() {
        for (const auto& [direction, of_pass] : ratios) {
            for (const StageInfo& info : stages_of(direction)) {
                const Ratios& of_stage = of_pass[std::size_t(info.stage)];
                std::cout << name_of(direction) << " " << info.name << ": " << of_stage.count
                          << " elements are off, by " << of_stage.median()
                          << " of their budget in the median and " << of_stage.largest << " at most\n";
            }
        }
    }
    static std::map<Direction, StageRatios> ratios;
};
std::map<Direction, StageRatios> HonestRuns::ratios;

TEST_P(HonestRuns, StayWithinEveryBudgetAndUseIt) {
    const Calls& calls = GetParam();
    StageRatios& of_pass = ratios[calls.direction];
    for (std::uint64_t run = 0; run < tried_seeds(calls.count); ++run) {
        const std::uint64_t seed = calls.first_seed + run * calls.step;
        const Call call = calls.of_seed(seed);
        SCOPED_TRACE(how_to_repeat(seed, call));
        ASSERT_NO_THROW(validate(call.inputs.side, call.problem, "the call's inputs"));
        const Report report = judge_with_ratios(recorded(call), of_pass);
        EXPECT_TRUE(matches(report));
        EXPECT_TRUE(!calls.is_judged || report.unjudged.empty()) << report.unjudged;
        if (!calls.has_every_stage) continue;
        for (const StageInfo& info : stages_of(calls.direction)) {
            EXPECT_TRUE(report.stage(info.stage).captured) << info.name;
            EXPECT_EQ(report.stage(info.stage).tally.unwritten, 0) << info.name;
        }
    }
    const bool is_forward = calls.direction == Direction::forward;
    for (const StageInfo& info : stages_of(calls.direction)) {
        const Ratios& of_stage = of_pass[std::size_t(info.stage)];
        EXPECT_LE(of_stage.largest, 1) << info.name;
        if (info.stage == Stage::dout) {
            EXPECT_EQ(of_stage.count, 0) << "a copy is exact";
        } else if (!is_forward || !is_operand(info.stage)) {
            EXPECT_GT(is_forward ? of_stage.largest : of_stage.median(), is_forward ? 1e-4 : 0.01)
                << info.name << " has a budget that no arithmetic comes near";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Budget, HonestRuns, ::testing::ValuesIn(all_calls()),
                         [](const auto& param) { return param.param.name; });

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
        SCOPED_TRACE(how_to_repeat(seed, call));
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

/// Probabilities that grow along the tile, added up from its last key: each partial sum is nearly all of the sum. One call of
/// some ten thousand.
TEST(HonestSums, OfTermsThatGrowAddedFromTheLast) {
    const Call call = random_call(InputKind::ramped_k, 9'083'198);
    ASSERT_EQ(call.arithmetic.pv_sum, Sum::reversed);
    EXPECT_TRUE(matches(recorded(call)));
}

/// The mean of each column of an output, over all of its heads and rows.
std::vector<float> column_means(const Recording& recording, Stage stage) {
    std::vector<double> sums(std::size_t(tile_shape(recording.problem(), stage).cols));
    double elements = 0;
    visit_stage(recording, stage, [&](float value, const TileId&, std::int64_t, std::int64_t col) {
        sums[std::size_t(col)] += double(value);
        ++elements;
    });
    std::vector<float> means;
    for (const double sum : sums) means.push_back(float(sum * double(sums.size()) / elements));
    return means;
}

class NullTest : public BothPasses {};

TEST_P(NullTest, NothingThatDoesNotDependOnTheInputsPasses) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        const MemoryRecording recording = recorded(call_of_dtype(direction(), dtype, 4));
        for (const StageInfo& info : stages()) {
            if (!is_output(info.stage)) continue;
            const std::vector<float> means = column_means(recording, info.stage);
            for (const char* replacement : {"zeros", "a constant", "column means"}) {
                MemoryRecording wrong = copy_of(recording);
                change_stage(wrong, info.stage, [&](float, const TileId&, std::int64_t, std::int64_t col) {
                    if (replacement[0] == 'z') return 0.0f;
                    return means[replacement[0] == 'a' ? 0 : std::size_t(col)];
                });
                SCOPED_TRACE(std::string(dtype_info(dtype).name) + ": " + replacement + " as " +
                             std::string(info.name));
                EXPECT_EQ(judged(wrong).guilty, info.stage);
                const Report alone = judged(with_stages(wrong, {info.stage}));
                EXPECT_EQ(alone.guilty, info.stage);
                EXPECT_GT(2 * alone.stage(info.stage).tally.outside, alone.stage(info.stage).tally.compared);
            }
        }
    }
}

TILESCOPE_TEST_BOTH_PASSES(NullTest);

}  // namespace
}  // namespace tilescope::test
