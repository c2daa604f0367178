// q and k that are scaled and rounded before their product, P that takes the descale of V, and query heads that read
// KV heads interleaved: a match where that is declared, and mistakes beside it are found in their stage.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "dump/recording/recording_view.h"
#include "oracle/causes/suggest.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 57;

class StagedScales : public BothPasses {};
TILESCOPE_TEST_BOTH_PASSES(StagedScales);

struct Scales {
    float q;
    float k;
};

/// Of small_problem(), whose sm_scale they are parts of.
std::vector<Scales> all_scales(const Problem& problem) {
    const auto scale = float(problem.sm_scale);
    const auto in_base_two = float(problem.sm_scale * std::numbers::log2e);
    return {{scale, 1}, {1, in_base_two}, {std::sqrt(scale), std::sqrt(scale)}, {1, 0.3f}};
}

Arithmetic scaled(const Scales& scales, Dtype cast, Softmax softmax, bool unscaled_in_gradients) {
    Arithmetic arithmetic;
    arithmetic.softmax = softmax;
    arithmetic.q.scale = scales.q;
    arithmetic.k.scale = scales.k;
    arithmetic.q.cast = arithmetic.k.cast = cast;
    arithmetic.unscaled_in_gradients = unscaled_in_gradients;
    return arithmetic;
}

/// All stages but these.
MemoryRecording without(const Recording& recording, const std::vector<Stage>& stages) {
    return copy_of(recording, [&](Stage stage, const TileId&) {
        return std::find(stages.begin(), stages.end(), stage) == stages.end();
    });
}

TEST_P(StagedScales, MatchAsDeclared) {
    const Problem problem = small_problem(Mask::causal, direction());
    int softmax = 0;
    for (const Scales& scales : all_scales(problem)) {
        for (const Dtype cast : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
            const Arithmetic arithmetic =
                scaled(scales, cast, Softmax(softmax++ % softmaxes), cast == Dtype::bf16);
            SCOPED_TRACE(describe(arithmetic) + ", scales " + std::to_string(scales.q) + " and " +
                         std::to_string(scales.k));
            const MemoryRecording run = recorded(make_call(problem, seed, arithmetic));
            EXPECT_TRUE(all_match(judged(run)));
            EXPECT_TRUE(matches(without(run, {Stage::q, Stage::k})));
        }
    }
}

/// Small numbers: their products with the scale are subnormal in float16.
TEST_P(StagedScales, OfTinyOperandsMatchToo) {
    const Problem problem = small_problem(Mask::none, direction());
    const Arithmetic arithmetic = scaled({1, 0.3f}, Dtype::f16, Softmax::natural, false);
    Call call = make_call(problem, seed, arithmetic);
    for (float& k : call.inputs.k) k = rounded(Dtype::f16, k * 1e-4f);
    const MemoryRecording run = recorded(call);
    EXPECT_TRUE(matches(without(run, {Stage::q, Stage::k})));
}

/// dk and dq multiply a product with a descale that was rounded on its own, beside the one that was dumped.
TEST(StagedScalesOfDescaledOperands, GradientsThatTakeThemBeforeTheirScaleMatch) {
    Problem problem = small_problem(Mask::none, Direction::backward);
    problem.seqlen_q = 2;
    problem.dtype_q = problem.dtype_k = Dtype::e4m3;
    Arithmetic arithmetic = scaled({0.3f, 1}, Dtype::bf16, Softmax::natural, true);
    for (std::uint64_t of_call = seed; of_call < seed + 40; ++of_call) {
        Call call = make_call(problem, of_call, arithmetic);
        call.inputs.side.descale_q = make_descale(problem, problem.heads, 1, problem.seqlen_q, of_call);
        SCOPED_TRACE(of_call);
        EXPECT_TRUE(all_match(judged(recorded(call))));
    }
}

TEST_P(StagedScales, AreWrongUndeclared) {
    const Problem problem = small_problem(Mask::none, direction());
    const Call call = make_call(problem, seed, scaled({1, 0.3f}, Dtype::f16, Softmax::natural, false));
    const MemoryRecording run = without(recorded(call), {Stage::q, Stage::k});
    Units units = run.units();
    units.k_scale = 1;
    units.k_cast = Dtype::f32;
    EXPECT_EQ(judged(DeclaredAs(run, problem, units)).guilty, Stage::s);
}

TEST_P(StagedScales, MistakesBesideThemAreFound) {
    struct Case {
        Mistake mistake;
        Stage stage;
    };
    const std::vector<Case> cases = is_forward() ? std::vector<Case>{{Mistake::scaled_twice, Stage::s},
                                                                     {Mistake::l_not_rescaled, Stage::l},
                                                                     {Mistake::acc_not_rescaled, Stage::acc}}
                                                 : std::vector<Case>{{Mistake::ds_without_delta, Stage::ds},
                                                                     {Mistake::dk_scaled_twice, Stage::dk}};
    for (const auto& [mistake, stage] : cases) {
        const Problem problem = small_problem(Mask::none, direction());
        const Arithmetic arithmetic = scaled({1, 0.3f}, Dtype::f16, Softmax::natural, false);
        const MemoryRecording run = recorded(make_call(problem, seed, arithmetic), planted(mistake));
        for (const MemoryRecording& recording : {copy_of(run), without(run, {Stage::q, Stage::k})}) {
            const Report report = judged(recording);
            EXPECT_EQ(report.guilty, stage) << verdict_line(report);
        }
    }
}

TEST_P(StagedScales, AreSuggestedWhereOperandsThatAreRoundedSoExplainWhatIsWrong) {
    Problem problem = small_problem(Mask::none, direction());
    problem.batch = 1;
    const auto in_base_two = float(problem.sm_scale * std::numbers::log2e);
    const Call call =
        make_call(problem, seed, scaled({1, in_base_two}, Dtype::f16, Softmax::base_two, false));
    const MemoryRecording honest = without(recorded(call), {Stage::q, Stage::k});
    Units units = honest.units();
    units.k_scale = 1;
    units.k_cast = Dtype::f32;
    const DeclaredAs silent(honest, problem, units);
    const auto found = suggest_declarations(silent, report_of(silent, one_thread()), 1);
    ASSERT_TRUE(found);
    EXPECT_FALSE(found->then);
    ASSERT_EQ(found->assignments.size(), 2u);
    EXPECT_EQ(found->assignments[0].name, "k.scale");
    EXPECT_EQ(found->assignments[1], (Assignment{"k.cast", "f16"}));
    // Rounded to something else, it is none of them.
    Call other = call;
    other.arithmetic.k.cast = Dtype::bf16;
    const MemoryRecording coarse = without(recorded(other), {Stage::q, Stage::k});
    const DeclaredAs wrong(coarse, problem, units);
    const auto none = suggest_declarations(wrong, report_of(wrong, one_thread()), 1);
    EXPECT_TRUE(!none || none->assignments[0].name != "k.scale");
}

/// fp8 K and V with a descale for each block of keys, and V as its codes.
Call descaled_call(DescaleInP in_p, Dtype operand, bool dumps_cast_p) {
    Call call;
    Problem& p = call.problem = small_problem(Mask::causal);
    p.dtype_v = Dtype::e4m3;
    call.inputs = make_inputs(p, InputKind::normal, seed);
    call.inputs.side.descale_v = make_descale(p, p.heads_kv, (p.seqlen_kv + 2) / 3, 3, seed);
    for (float& value : call.inputs.side.descale_v.values) value *= 1e-3f;
    call.arithmetic.v.dequantises = false;
    call.arithmetic.p_descale = in_p;
    call.arithmetic.p_operand = operand;
    call.arithmetic.dumps_cast_p = dumps_cast_p;
    return call;
}

TEST(DescaleInP, MatchesAsDeclared) {
    for (const Dtype operand : {Dtype::f16, Dtype::bf16, Dtype::f32}) {
        for (const bool dumps_cast_p : {false, true}) {
            for (const DescaleInP in_p : {DescaleInP::operand, DescaleInP::recorded}) {
                if (dumps_cast_p && in_p == DescaleInP::operand) continue;
                const MemoryRecording run = recorded(descaled_call(in_p, operand, dumps_cast_p));
                EXPECT_TRUE(all_match(judged(run))) << dtype_info(operand).name << dumps_cast_p << int(in_p);
                EXPECT_TRUE(matches(without(run, {Stage::p})));
            }
        }
    }
}

TEST(DescaleInP, IsWrongUndeclaredAndSuggested) {
    const Call call = descaled_call(DescaleInP::operand, Dtype::f16, false);
    const MemoryRecording run = recorded(call);
    Units units = run.units();
    units.p_descale_v = DescaleInP::none;
    const DeclaredAs silent(run, run.problem(), units);
    const Report report = judged(silent);
    EXPECT_EQ(report.guilty, Stage::acc) << verdict_line(report);
    const auto found = suggest_declarations(silent, report, 1);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->assignments.size(), 1u);
    EXPECT_EQ(found->assignments[0], (Assignment{"p.descale_v", "operand"}));
}

TEST(DescaleInP, MistakesBesideItAreFound) {
    for (const DescaleInP in_p : {DescaleInP::operand, DescaleInP::recorded}) {
        const Call call = descaled_call(in_p, Dtype::f16, false);
        EXPECT_EQ(judged(recorded(call, planted(Mistake::acc_not_rescaled))).guilty, Stage::acc);
        // The descales of the next block of keys.
        Call wrong = call;
        std::vector<float>& values = wrong.inputs.side.descale_v.values;
        std::rotate(values.begin(), values.begin() + 1, values.end());
        const MemoryRecording healthy = recorded(call);
        const MemoryRecording run = recorded(wrong);
        EXPECT_EQ(judged(declared_as(run, healthy.problem(), healthy.units(), call.inputs)).guilty,
                  in_p == DescaleInP::operand ? Stage::acc : Stage::p);
    }
}

TEST(DescaleInP, IsRefusedWhereNothingCouldBeMeant) {
    const Call call = descaled_call(DescaleInP::operand, Dtype::f16, false);
    const MemoryRecording run = recorded(call);
    const auto refused = [&](void (*change)(Units&)) {
        Units units = run.units();
        change(units);
        EXPECT_THROW(judged(DeclaredAs(run, run.problem(), units)), Error);
    };
    refused([](Units& u) { u.v_dequantised = true; });
    refused([](Units& u) { u.acc_dequantised = false; });
    refused([](Units& u) { u.p_cast = Dtype::f16; });
    refused([](Units& u) { u.l_sums_cast_p = true; });
}

class InterleavedHeads : public BothPasses {};
TILESCOPE_TEST_BOTH_PASSES(InterleavedHeads);

Problem interleaved(Direction direction) {
    Problem problem = small_problem(Mask::causal, direction);
    problem.batch = 1;
    problem.heads = 6;
    problem.heads_kv = 2;
    problem.head_grouping = HeadGrouping::interleaved;
    return problem;
}

TEST_P(InterleavedHeads, MatchAsDeclaredAndAreSuggested) {
    for (const bool per_head : {false, true}) {
        if (per_head && is_forward()) continue;
        Problem problem = interleaved(direction());
        problem.dkv_per_head = per_head;
        const MemoryRecording run = recorded(make_call(problem, seed));
        EXPECT_TRUE(all_match(judged(run)));
        problem.head_grouping = HeadGrouping::consecutive;
        const DeclaredAs silent(run, problem, run.units());
        const Report report = judged(silent);
        EXPECT_EQ(report.guilty, Stage::k) << verdict_line(report);
        const MemoryRecording kept = without(run, {Stage::q, Stage::k, Stage::v});
        const DeclaredAs bare(kept, problem, run.units());
        const auto found = suggest_declarations(bare, judged(bare), 1);
        ASSERT_TRUE(found);
        ASSERT_EQ(found->assignments.size(), 1u);
        EXPECT_EQ(found->assignments[0], (Assignment{"problem.head_grouping", "interleaved"}));
        EXPECT_FALSE(found->then);
    }
}

TEST_P(InterleavedHeads, ConsecutiveOnesAreWrong) {
    Problem problem = interleaved(direction());
    problem.head_grouping = HeadGrouping::consecutive;
    const MemoryRecording run = without(recorded(make_call(problem, seed)), {Stage::k, Stage::v});
    const Report report = judged(DeclaredAs(run, interleaved(direction()), run.units()));
    EXPECT_EQ(report.guilty, Stage::s) << verdict_line(report);
}

TEST_P(InterleavedHeads, MistakesBesideThemAreFound) {
    const Problem problem = interleaved(direction());
    const Mistake mistake = is_forward() ? Mistake::acc_not_rescaled : Mistake::dk_scaled_twice;
    Plant plant = planted(mistake);
    plant.batch = 0;
    const MemoryRecording run = recorded(make_call(problem, seed), plant);
    const Report report = judged(run);
    EXPECT_EQ(report.guilty, is_forward() ? Stage::acc : Stage::dk) << verdict_line(report);
}

}  // namespace
}  // namespace tilescope::test
