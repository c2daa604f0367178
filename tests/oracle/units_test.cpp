// What a recording declares about its stages is what it is judged by.

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 31;

Call call_with(Direction direction, const Arithmetic& arithmetic, double cap = 0) {
    Problem problem = one_entry(Mask::causal, direction);
    problem.logits_soft_cap = cap;
    if (direction == Direction::backward) return make_call(problem, seed, arithmetic);
    problem.heads = 2;
    return make_call(problem, seed, arithmetic, InputKind::ramped_k);
}

class Declarations : public BothPasses {};

TEST_P(Declarations, OfEverySoftmaxMatchWithEveryCastAndOrder) {
    for (int variation = 0; variation < softmaxes * 32; ++variation) {
        Arithmetic arithmetic;
        arithmetic.softmax = Softmax(variation / 32);
        arithmetic.p_operand =
            std::array{Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3}[variation / 8 % 4];
        arithmetic.dumps_cast_p = (variation & 1) != 0;
        arithmetic.lse_log_base = arithmetic.dumps_cast_p ? LogBase::two : LogBase::e;
        arithmetic.l_sums_cast_p = (variation & 2) != 0;
        arithmetic.kv_order = (variation & 4) != 0 ? KvOrder::reverse : KvOrder::forward;
        // A backward kernel has neither l nor an order of its own.
        if (!is_forward() && (variation & 6) != 0) continue;
        SCOPED_TRACE(describe(arithmetic));
        EXPECT_TRUE(all_match(judged(recorded(call_with(direction(), arithmetic)))));
    }
}

/// With tiles that are hidden altogether and a tail, so that the number is a maximum for a while.
TEST_P(Declarations, OfNumbersInMaskedScoresMatchWithEverySoftmaxAndCastOfScores) {
    constexpr float numbers[] = {-std::numeric_limits<float>::max(), -1e9f, -6e4f};
    constexpr Dtype casts[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
    for (int variation = 0; variation < softmaxes * 18; ++variation) {
        Arithmetic arithmetic;
        arithmetic.softmax = Softmax(variation / 18);
        arithmetic.masked_s = numbers[variation % 3];
        arithmetic.kept_s = casts[variation / 3 % 3];
        arithmetic.skips_hidden_tiles = false;
        // One contracts the score before its mask and cast; the other's m is no number of float32.
        if (arithmetic.softmax == Softmax::natural_contracted) continue;
        if (arithmetic.softmax == Softmax::natural_with_base_two_max && arithmetic.masked_s < -1e38f)
            continue;
        if (is_forward() && variation / 9 % 2 == 1) arithmetic.kv_order = KvOrder::reverse;
        SCOPED_TRACE(describe(arithmetic));
        Call call = call_with(direction(), arithmetic);
        call.problem.window_left = 20;
        const MemoryRecording run = recorded(call);
        EXPECT_TRUE(all_match(judged(run)));
    }
}

struct Misdeclaration {
    const char* what;
    Arithmetic arithmetic;
    void (*change)(Units&);
    Stage blamed;
};

std::vector<Misdeclaration> misdeclarations(Direction direction) {
    Arithmetic natural;
    if (direction == Direction::backward) {
        return {
            {"s is not scaled", natural, [](Units& units) { units.s_scaled = false; }, Stage::s},
            {"p is scaled", natural, [](Units& units) { units.p_scale = 2; }, Stage::p},
            {"lse is to the base two", natural, [](Units& units) { units.lse_log_base = LogBase::two; },
             Stage::p},
            {"ds is scaled", natural, [](Units& units) { units.ds_scale = 0.25; }, Stage::ds},
            {"ds is not capped", natural, [](Units& units) { units.ds_capped = false; }, Stage::ds},
        };
    }
    Arithmetic raw;
    raw.softmax = Softmax::raw_exp2;
    Arithmetic cast;
    cast.p_operand = Dtype::bf16;
    cast.dumps_cast_p = true;
    Arithmetic sums_cast = cast;
    sums_cast.dumps_cast_p = false;
    sums_cast.l_sums_cast_p = true;
    Arithmetic reverse;
    reverse.kv_order = KvOrder::reverse;
    return {
        {"s is not scaled", natural, [](Units& units) { units.s_scaled = false; }, Stage::s},
        {"s is scaled", raw, [](Units& units) { units.s_scaled = true; }, Stage::s},
        {"s is to the base two", natural, [](Units& units) { units.s_log_base = LogBase::two; }, Stage::s},
        {"s is not masked", natural, [](Units& units) { units.s_masked = false; }, Stage::s},
        {"m is scaled", raw, [](Units& units) { units.m_scaled = true; }, Stage::m},
        {"m is to the base two", natural, [](Units& units) { units.m_log_base = LogBase::two; }, Stage::m},
        {"p is not cast", cast, [](Units& units) { units.p_cast = Dtype::f32; }, Stage::p},
        {"l adds p before its cast", sums_cast, [](Units& units) { units.l_sums_cast_p = false; }, Stage::l},
        {"lse is to the base two", natural, [](Units& units) { units.lse_log_base = LogBase::two; },
         Stage::lse},
        {"the KV order is forward", reverse, [](Units& units) { units.kv_order = KvOrder::forward; },
         Stage::m},
    };
}

TEST_P(Declarations, OfOtherUnitsAreBlamedOnTheirStage) {
    for (const Misdeclaration& wrong : misdeclarations(direction())) {
        SCOPED_TRACE(wrong.what);
        const Call call = call_with(direction(), wrong.arithmetic, is_forward() ? 0 : 3);
        const MemoryRecording run = recorded(call);
        ASSERT_TRUE(matches(run));
        Units units = run.units();
        wrong.change(units);
        const Report report = judged(declared_as(run, run.problem(), units, call.inputs));
        EXPECT_EQ(report.guilty, wrong.blamed) << verdict_line(report);
    }
}

TILESCOPE_TEST_BOTH_PASSES(Declarations);

TEST(Units, ValuesAreReportedInTheUnitsOfTheDump) {
    Arithmetic arithmetic;
    arithmetic.softmax = Softmax::raw_exp2;
    MemoryRecording run = recorded(call_with(Direction::forward, arithmetic));
    const TileId tile{0, 0, 1, 0};
    const float healthy = peek(run, Stage::s, tile, 2, 3);
    poke(run, Stage::s, tile, 2, 3, healthy + 7);
    const Report report = judged(run);
    ASSERT_EQ(report.guilty, Stage::s);
    EXPECT_FLOAT_EQ(float(report.first_divergence->got), healthy + 7);
    EXPECT_NEAR(report.first_divergence->expected, double(healthy), 1e-4);
    EXPECT_NEAR(report.stage(Stage::s).tally.max_abs, 7, 1e-4);
}

}  // namespace
}  // namespace tilescope::test
