// Tolerances that tell nothing: far-away scores, additive masks and sinks must not widen those of a row that
// they add nothing to, and where nothing can be told there is no match.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "oracle/formula/row_max.h"
#include "oracle/formula/softmax.h"
#include "oracle/judge.h"
#include "tests/oracle/draws.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

const std::vector<Stage> outputs = {Stage::o, Stage::lse};

/// A head on which every third key is hidden by what is added to its score.
Inputs hidden_by(const Problem& problem, float mask, std::uint64_t seed) {
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    inputs.bias.seqlen_kv = problem.seqlen_kv;
    for (std::int64_t key = 0; key < problem.seqlen_kv; ++key)
        inputs.bias.values.push_back(key % 3 == 1 ? mask : 0);
    return inputs;
}

MemoryRecording with_value(const Recording& from, Stage stage, float value) {
    MemoryRecording recording = copy_of(from);
    change_stage(recording, stage, [&](auto...) { return value; });
    return recording;
}

TEST(Telling, OutputsBesideAnAdditiveMask) {
    const Problem problem = small_problem();
    for (const float mask : {-1e6f, -1e9f, std::numeric_limits<float>::lowest()}) {
        SCOPED_TRACE(mask);
        const MemoryRecording run = recorded({problem, {}, hidden_by(problem, mask, 7)});
        const MemoryRecording healthy = with_stages(run, outputs);
        const Report right = judged(healthy);
        EXPECT_TRUE(matches(right));
        EXPECT_EQ(right.stage(Stage::o).tally.not_judged, 0);
        EXPECT_EQ(judged(with_value(healthy, Stage::o, 0)).guilty, Stage::o);
    }
}

TEST(Telling, OutputsBesideAFarSink) {
    for (const AttentionSink sink : {AttentionSink::first, AttentionSink::last}) {
        Problem problem = small_problem();
        problem.sink = sink;
        Inputs inputs = make_inputs(problem, InputKind::normal, 8);
        inputs.side.sink.assign(std::size_t(problem.heads), -1e6f);
        const MemoryRecording run = recorded({problem, {}, inputs});
        const MemoryRecording healthy = with_stages(run, outputs);
        const Report right = judged(healthy);
        EXPECT_TRUE(matches(right));
        EXPECT_EQ(right.stage(Stage::o).tally.not_judged, 0);
        EXPECT_EQ(judged(with_value(healthy, Stage::o, 0)).guilty, Stage::o);
    }
}

/// In float32 scores beside -1e9 are 64 apart: whatever o is, it may be.
TEST(Telling, RowsThatAreHiddenAltogetherAreNotJudged) {
    const Problem problem = small_problem();
    Inputs inputs = hidden_by(problem, -1e9f, 9);
    for (float& value : inputs.bias.values) value = -1e9f;
    const MemoryRecording run = recorded({problem, {}, inputs});
    const MemoryRecording healthy = with_stages(run, {Stage::o});
    EXPECT_THROW(judged(healthy), NoVerdict);
    EXPECT_THROW(judged(with_value(healthy, Stage::o, 0)), NoVerdict);
    EXPECT_THROW(judged(with_stages(run, outputs)), NoVerdict)
        << "that lse could be judged makes no match of o";
    // With the stages before it o is judged.
    EXPECT_TRUE(matches(run));
    EXPECT_EQ(judged(with_value(run, Stage::o, 0)).guilty, Stage::o);
}

/// One value is possible: judged, and a match where it is there.
TEST(Telling, ConstantVIsJudged) {
    for (const float value : {1.0f, 0.0f}) {
        const Problem problem = small_problem(Mask::causal);
        Inputs inputs = make_inputs(problem, InputKind::normal, 10);
        std::fill(inputs.v.begin(), inputs.v.end(), value);
        const MemoryRecording run = recorded({problem, {}, inputs});
        for (const MemoryRecording& recording : {copy_of(run), with_stages(run, {Stage::o})}) {
            const Report report = judged(recording);
            EXPECT_TRUE(matches(report));
            EXPECT_EQ(report.stage(Stage::o).tally.not_judged, 0);
            EXPECT_EQ(judged(with_value(recording, Stage::o, 0.5f)).guilty, Stage::o);
        }
    }
}

/// A maximum that lags changes neither o nor lse.
TEST(Telling, OutputsOfALaggingMaximum) {
    const Problem problem = small_problem();
    Arithmetic arithmetic;
    arithmetic.stale_threshold = 8;
    const MemoryRecording run = recorded(make_call(problem, 11, arithmetic, InputKind::ramped_k));
    const MemoryRecording healthy = with_stages(run, outputs);
    EXPECT_TRUE(matches(healthy));
    EXPECT_EQ(judged(with_value(healthy, Stage::o, 0)).guilty, Stage::o);
}

/// The maximum of numbers that may each be anywhere in an interval.
TEST(Telling, MaximumOfIntervals) {
    Random random(20261122);
    HeadCall call;
    for (int round = 0; round < 2000; ++round) {
        Estimate s = zeros(1, 6);
        Estimate before = zeros(1, 1);
        double least = -std::numeric_limits<double>::infinity();
        double most = least;
        const auto uniform = [&] { return double(random() >> 11) * 0x1p-53; };
        const auto draw = [&](double& value, double& error) {
            value = std::ldexp(uniform() - 0.5, int(random() % 24));
            error = std::ldexp(uniform(), int(random() % 24) - 12);
            least = std::max(least, value - error);
            most = std::max(most, value + error);
        };
        draw(before.value(0, 0), before.error(0, 0));
        for (Eigen::Index j = 0; j < s.value.cols(); ++j) draw(s.value(0, j), s.error(0, j));
        const Estimate m = row_max(call, before, s);
        const double middle = std::max(before.value(0, 0), s.value.maxCoeff());
        EXPECT_EQ(m.value(0, 0), middle);
        const double error = std::max(most - middle, middle - least);
        EXPECT_NEAR(m.error(0, 0), error, 1e-12 * (std::abs(middle) + error))
            << "seed 20261122, round " << round;
    }
}

}  // namespace
}  // namespace tilescope::test
