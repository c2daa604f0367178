// What kernels may do in their own way is no divergence: the order of the KV tiles, splits, a maximum that
// lags, and every cast of P.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "oracle/causes/find_causes.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 71;

Problem two_heads(Mask mask) {
    Problem problem = small_problem(mask);
    problem.batch = 1;
    problem.heads = 2;
    return problem;
}

void expect_clean(const Report& report) {
    EXPECT_TRUE(matches(report));
    for (const StageInfo& info : stages_of(Direction::forward)) {
        EXPECT_GT(report.stage(info.stage).tally.compared, 0) << info.name;
        EXPECT_EQ(report.stage(info.stage).tally.outside, 0) << info.name;
        EXPECT_EQ(report.stage(info.stage).tally.inherited, 0) << info.name;
    }
}

/// The largest value that a stage holds.
float largest_of(const Recording& recording, Stage stage) {
    const Problem& p = recording.problem();
    float largest = 0;
    for (std::int64_t i = 0; i < tile_count(p, stage); ++i) {
        const TileId tile = tile_at(p, stage, i);
        std::vector<float> values(std::size_t(tile_shape(p, stage).elements()));
        if (!recording.read_tile(stage, tile, values)) continue;
        for (const float value : values) largest = value > largest ? value : largest;
    }
    return largest;
}

/// Elements of P that are 448 where exp(s - m) times 256, of the s and m of the dump, is more.
std::int64_t saturated_in(const Recording& recording) {
    const Problem& problem = recording.problem();
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < tile_count(problem, Stage::p); ++i) {
        const TileId tile = tile_at(problem, Stage::p, i);
        const TileShape extent = tile_extent(problem, Stage::p, tile);
        for (std::int64_t row = 0; row < extent.rows; ++row) {
            const double m = peek(recording, Stage::m, tile, row, 0);
            for (std::int64_t col = 0; col < extent.cols; ++col) {
                const double s = peek(recording, Stage::s, tile, row, col);
                const bool beyond = 256 * std::exp(s - m) > 448;
                count += beyond && peek(recording, Stage::p, tile, row, col) == 448;
            }
        }
    }
    return count;
}

/// Behind a maximum that lags, P times its scale may not fit its type. A cast rounds; saturating loses what
/// is beyond, which no declaration allows: p is blamed, or where it was not dumped what adds it up.
TEST(IllegalVariation, OfPThatSaturatesIsCountedAndBlamed) {
    Arithmetic arithmetic;
    arithmetic.dumps_cast_p = true;
    arithmetic.stale_threshold = 4;
    arithmetic.p_operand = Dtype::e4m3;
    arithmetic.p_scale = 256;
    arithmetic.l_scaled = false;
    const Problem problem = two_heads(Mask::none);
    MemoryRecording run = recorded(make_call(problem, seed, arithmetic, InputKind::ramped_k));
    ASSERT_EQ(largest_of(run, Stage::p), 448.0f) << "nothing saturates";
    const Report with_p = judged(run);
    EXPECT_EQ(with_p.guilty, Stage::p) << verdict_line(with_p);
    EXPECT_EQ(with_p.stage(Stage::p).tally.saturated, saturated_in(run));
    EXPECT_GE(with_p.stage(Stage::p).tally.saturated, with_p.stage(Stage::p).tally.outside);
    ASSERT_EQ(with_p.warnings.size(), 1u);
    EXPECT_NE(with_p.warnings[0].find("elements of p are 448, the largest e4m3 number"), std::string::npos);
    EXPECT_EQ(with_p.stage(Stage::acc).tally.outside, 0) << "acc is right for this p";
    const Diagnosis diagnosis = find_causes(run, with_p, {});
    ASSERT_EQ(diagnosis.causes.size(), 1u);
    EXPECT_EQ(diagnosis.causes[0].name, "p_saturated");
    for (std::int64_t i = 0; i < tile_count(problem, Stage::p); ++i)
        run.remove_tile(Stage::p, tile_at(problem, Stage::p, i));
    const Report without_p = judged(run);
    EXPECT_EQ(without_p.guilty, Stage::acc) << verdict_line(without_p);
}

class LegalVariation : public ::testing::TestWithParam<int> {};

TEST_P(LegalVariation, OfOrderSplitsAndMaximum) {
    for (const KvOrder order : {KvOrder::forward, KvOrder::reverse}) {
        for (const std::int64_t tiles_per_split : {0, 1, 2, 3}) {
            for (const double threshold : {0.0, 1.0, 8 * std::numbers::ln2}) {
                Problem problem = two_heads(threshold == 1 ? Mask::causal : Mask::none);
                problem.kv_tiles_per_split = tiles_per_split;
                Arithmetic arithmetic;
                arithmetic.softmax = Softmax(GetParam());
                arithmetic.kv_order = order;
                arithmetic.stale_threshold = threshold;
                SCOPED_TRACE(describe(problem) + describe(arithmetic));
                const MemoryRecording run =
                    recorded(make_call(problem, seed, arithmetic, InputKind::ramped_k));
                expect_clean(judged(run));
            }
        }
    }
}

TEST_P(LegalVariation, OfEveryCastOfP) {
    for (const Dtype p_operand : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2}) {
        for (const double p_scale : {1.0, 256.0, 448.0}) {
            for (const bool scaled : {false, true}) {
                for (const bool cast : {false, true}) {
                    const Problem problem = two_heads(Mask::causal);
                    Arithmetic arithmetic;
                    arithmetic.softmax = Softmax(GetParam());
                    arithmetic.p_operand = p_operand;
                    arithmetic.p_scale = p_scale;
                    arithmetic.l_scaled = scaled;
                    arithmetic.acc_scaled = !scaled || cast;
                    arithmetic.dumps_cast_p = cast;
                    arithmetic.l_sums_cast_p = scaled && cast;
                    SCOPED_TRACE(describe(arithmetic));
                    const MemoryRecording run =
                        recorded(make_call(problem, seed, arithmetic, InputKind::ramped_k));
                    expect_clean(judged(run));
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Softmaxes, LegalVariation, ::testing::Range(0, softmaxes));

/// The variations above are ones: P above 1, and states that begin anew.
TEST(LegalVariations, AreThere) {
    Problem problem = two_heads(Mask::none);
    Arithmetic arithmetic;
    arithmetic.stale_threshold = 1;
    const Inputs inputs = make_inputs(problem, InputKind::ramped_k, seed);
    const MemoryRecording lagging = recorded({problem, arithmetic, inputs});
    EXPECT_GT(largest_of(lagging, Stage::p), 1.5f);
    EXPECT_LE(largest_of(lagging, Stage::p), float(std::numbers::e) * 1.000001f);

    const MemoryRecording whole = recorded({problem, {}, inputs});
    problem.kv_tiles_per_split = 2;
    const MemoryRecording split = recorded({problem, {}, inputs});
    EXPECT_EQ(peek(split, Stage::l, {0, 0, 0, 1}, 0, 0), peek(whole, Stage::l, {0, 0, 0, 1}, 0, 0));
    EXPECT_LT(peek(split, Stage::l, {0, 0, 0, 2}, 0, 0), peek(whole, Stage::l, {0, 0, 0, 2}, 0, 0));
}

/// What is not captured is computed, whichever stages are there.
TEST(LegalVariations, AreJudgedFromTheInputsAsWell) {
    for (const std::int64_t tiles_per_split : {0, 2}) {
        Problem problem = two_heads(Mask::none);
        problem.kv_tiles_per_split = tiles_per_split;
        Arithmetic arithmetic;
        arithmetic.stale_threshold = tiles_per_split == 0 ? 2 : 0;
        const MemoryRecording run = recorded(make_call(problem, seed, arithmetic, InputKind::ramped_k));
        for (const StageInfo& info : stages_of(Direction::forward)) {
            EXPECT_TRUE(matches(with_stages(run, {info.stage})));
        }
    }
}

/// A kernel that reads m below what its threshold allows, or has P where none can be.
TEST(IllegalVariation, OfALaggingMaximumIsBlamedOnMOrOnPWithoutIt) {
    const Problem problem = two_heads(Mask::none);
    Arithmetic lagging;
    lagging.stale_threshold = 4;
    Arithmetic declared;
    declared.stale_threshold = 1;
    const Inputs inputs = make_inputs(problem, InputKind::ramped_k, seed);
    const MemoryRecording run = recorded({problem, lagging, inputs});
    const MemoryRecording wrong = declared_as(run, problem, units_of(declared), inputs);
    const Report with_m = judged(wrong);
    EXPECT_EQ(with_m.guilty, Stage::m) << verdict_line(with_m);
    EXPECT_EQ(with_m.stage(Stage::p).tally.outside, 0) << "P is right for this m";
    const Report without_m = judged(with_stages(wrong, {Stage::s, Stage::p, Stage::o}));
    EXPECT_EQ(without_m.guilty, Stage::p) << verdict_line(without_m);
    EXPECT_GT(without_m.stage(Stage::p).tally.worst.at(0).got,
              without_m.stage(Stage::p).tally.worst[0].expected);
}

}  // namespace
}  // namespace tilescope::test
