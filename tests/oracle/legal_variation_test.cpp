// What kernels may do in their own way is no divergence: the order of the KV tiles, loops and sums, splits, a
// maximum that lags, what is folded into ds, and every cast of P and ds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "oracle/causes/find_causes.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 71;

Problem two_heads(Mask mask) {
    Problem problem = one_entry(mask, Direction::forward);
    problem.heads = 2;
    return problem;
}

Call ramped_call(const Problem& problem, const Arithmetic& arithmetic) {
    return make_call(problem, seed, arithmetic, InputKind::ramped_k);
}

Call backward_call(const Arithmetic& arithmetic, double cap = 0) {
    Problem problem = one_entry(Mask::causal, Direction::backward);
    problem.logits_soft_cap = cap;
    return make_call(problem, seed, arithmetic);
}

/// Ways to compute the same.
struct Variation {
    const char* name;
    std::vector<Call> (*calls)();
};

std::vector<Call> orders_splits_and_maxima() {
    std::vector<Call> calls;
    for (int softmax = 0; softmax < softmaxes; ++softmax) {
        for (const KvOrder order : {KvOrder::forward, KvOrder::reverse}) {
            for (const std::int64_t tiles_per_split : {0, 1, 2, 3}) {
                for (const double threshold : {0.0, 1.0, 8 * std::numbers::ln2}) {
                    Problem problem = two_heads(threshold == 1 ? Mask::causal : Mask::none);
                    problem.kv_tiles_per_split = tiles_per_split;
                    Arithmetic arithmetic;
                    arithmetic.softmax = Softmax(softmax);
                    arithmetic.kv_order = order;
                    arithmetic.stale_threshold = threshold;
                    calls.push_back(ramped_call(problem, arithmetic));
                }
            }
        }
    }
    return calls;
}

std::vector<Call> casts_of_p() {
    std::vector<Call> calls;
    for (int softmax = 0; softmax < softmaxes; ++softmax) {
        for (const Dtype p_operand : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2}) {
            for (const double p_scale : {1.0, 256.0, 448.0}) {
                for (int variation = 0; variation < 4; ++variation) {
                    const bool scaled = (variation & 1) != 0;
                    const bool cast = (variation & 2) != 0;
                    Arithmetic arithmetic;
                    arithmetic.softmax = Softmax(softmax);
                    arithmetic.p_operand = p_operand;
                    arithmetic.p_scale = p_scale;
                    arithmetic.l_scaled = scaled;
                    arithmetic.acc_scaled = !scaled || cast;
                    arithmetic.dumps_cast_p = cast;
                    arithmetic.l_sums_cast_p = scaled && cast;
                    calls.push_back(ramped_call(two_heads(Mask::causal), arithmetic));
                }
            }
        }
    }
    return calls;
}

std::vector<Call> orders_of_gradients() {
    std::vector<Call> calls;
    for (const LoopNest nest : {LoopNest::keys_outside, LoopNest::two_passes}) {
        for (int variation = 0; variation < 16; ++variation) {
            Arithmetic arithmetic;
            arithmetic.nest = nest;
            arithmetic.dkv_atomic = (variation & 1) != 0;
            arithmetic.group_in_parts = (variation & 2) != 0;
            arithmetic.reversed_blocks = (variation & 4) != 0;
            arithmetic.skips_hidden_tiles = (variation & 8) != 0;
            arithmetic.order_seed = std::uint64_t(variation) + 1;
            calls.push_back(backward_call(arithmetic));
        }
    }
    return calls;
}

std::vector<Call> scales_and_casts_of_ds_and_p() {
    std::vector<Call> calls;
    for (const double cap : {0.0, 3.0}) {
        for (const double ds_scale : {1.0, 0.25, 8.0, double(0.37f)}) {
            for (const Dtype operand : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
                for (int variation = 0; variation < 8; ++variation) {
                    Arithmetic arithmetic;
                    arithmetic.ds_scale = ds_scale;
                    arithmetic.ds_operand = arithmetic.p_operand = operand;
                    arithmetic.dumps_cast_ds = (variation & 1) != 0;
                    arithmetic.dumps_cast_p = (variation & 2) != 0;
                    arithmetic.ds_from_cast_p = (variation & 4) != 0;
                    arithmetic.dumps_uncapped_ds =
                        cap != 0 && !arithmetic.dumps_cast_ds && (variation & 4) != 0;
                    arithmetic.ds_order = DsOrder(variation % ds_orders);
                    calls.push_back(backward_call(arithmetic, cap));
                }
            }
        }
    }
    return calls;
}

constexpr Variation variations[] = {
    {"orders_splits_and_maxima", orders_splits_and_maxima},
    {"casts_of_p", casts_of_p},
    {"orders_of_gradients", orders_of_gradients},
    {"scales_and_casts_of_ds_and_p", scales_and_casts_of_ds_and_p},
};

class LegalVariation : public ::testing::TestWithParam<Variation> {};

TEST_P(LegalVariation, IsNoDivergence) {
    for (const Call& call : GetParam().calls()) {
        SCOPED_TRACE(describe(call));
        MemoryRecording run = recorded(call);
        run.set_capture(everything_selected());
        EXPECT_TRUE(all_match(judged(run)));
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, LegalVariation, ::testing::ValuesIn(variations),
                         [](const auto& param) { return std::string(param.param.name); });

/// The variations above are ones: P above 1, and states that begin anew.
TEST(ForwardVariations, AreThere) {
    Problem problem = two_heads(Mask::none);
    Arithmetic arithmetic;
    arithmetic.stale_threshold = 1;
    const Inputs inputs = make_inputs(problem, InputKind::ramped_k, seed);
    const MemoryRecording lagging = recorded({problem, arithmetic, inputs});
    EXPECT_GT(range_of(lagging, Stage::p).second, 1.5f);
    EXPECT_LE(range_of(lagging, Stage::p).second, float(std::numbers::e) * 1.000001f);

    const MemoryRecording whole = recorded({problem, {}, inputs});
    problem.kv_tiles_per_split = 2;
    const MemoryRecording split = recorded({problem, {}, inputs});
    EXPECT_EQ(peek(split, Stage::l, {0, 0, 0, 1}, 0, 0), peek(whole, Stage::l, {0, 0, 0, 1}, 0, 0));
    EXPECT_LT(peek(split, Stage::l, {0, 0, 0, 2}, 0, 0), peek(whole, Stage::l, {0, 0, 0, 2}, 0, 0));
}

TEST(BackwardVariations, AreThere) {
    const MemoryRecording in_order = recorded(backward_call({}));
    for (const Call& call : orders_of_gradients()) {
        const MemoryRecording run = recorded(call);
        std::int64_t differences = 0;
        for (const Stage stage : {Stage::dq, Stage::dk}) {
            visit_stage(run, stage, [&](float value, const TileId& tile, std::int64_t row, std::int64_t col) {
                differences += value != peek(in_order, stage, tile, row, col);
            });
        }
        EXPECT_GT(differences, 0) << "no other order: " << describe(call);
    }
}

TEST(BackwardVariations, GradientsOfAQueryHeadOrOfItsGroup) {
    for (const bool per_head : {false, true}) {
        Problem problem = one_entry(Mask::none, Direction::backward);
        problem.dkv_per_head = per_head;
        const Report report = judged(recorded(make_call(problem, seed)));
        EXPECT_TRUE(all_match(report));
        EXPECT_EQ(report.stage(Stage::dk).tally.compared, (per_head ? 4 : 2) * 72 * 16);
    }
}

/// What is not captured is computed, whichever stages are there.
TEST(ForwardVariations, AreJudgedFromTheInputsAsWell) {
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

/// Elements of P that are 448 where exp(s - m) times 256, of the s and m of the dump, is more.
std::int64_t saturated_in(const Recording& recording) {
    std::int64_t count = 0;
    visit_stage(recording, Stage::p, [&](float p, const TileId& tile, std::int64_t row, std::int64_t col) {
        const double m = peek(recording, Stage::m, tile, row, 0);
        const double s = peek(recording, Stage::s, tile, row, col);
        count += p == 448 && 256 * std::exp(s - m) > 448;
    });
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
    MemoryRecording run = recorded(ramped_call(problem, arithmetic));
    ASSERT_EQ(range_of(run, Stage::p).second, 448.0f) << "nothing saturates";
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

/// What its type cannot hold of P is then the mistake of the maximum: P is given no cause of its own.
TEST(IllegalVariation, OfALaggingMaximumIsNotBlamedOnTheTypeOfP) {
    const Problem problem = two_heads(Mask::none);
    Arithmetic lagging;
    lagging.dumps_cast_p = true;
    lagging.stale_threshold = 4;
    lagging.p_operand = Dtype::e4m3;
    lagging.p_scale = 256;
    lagging.l_scaled = false;
    Arithmetic declared = lagging;
    declared.stale_threshold = 0;
    const Inputs inputs = make_inputs(problem, InputKind::ramped_k, seed);
    const MemoryRecording run =
        declared_as(recorded({problem, lagging, inputs}), problem, units_of(declared), inputs);
    ASSERT_EQ(range_of(run, Stage::p).second, 448.0f) << "nothing saturates";
    Report report = judged(run);
    EXPECT_EQ(report.guilty, Stage::m) << verdict_line(report);
    EXPECT_GT(report.stage(Stage::p).tally.outside, 0);
    report.diagnosis = find_causes(run, report, {});
    for (const StageAnswer& answer : report.diagnosis.answers) {
        EXPECT_TRUE(answer.stage != Stage::p || answer.kind != AnswerKind::own_cause) << causes_text(report);
    }
    for (const auto& cause : report.diagnosis.then) EXPECT_NE(cause.stage, Stage::p) << cause.name;
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
