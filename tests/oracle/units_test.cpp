// What a recording declares about its stages is what it is judged by.

#include <gtest/gtest.h>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 31;

MemoryRecording run_with(const Arithmetic& arithmetic) {
    Problem problem = small_problem(Mask::causal);
    problem.batch = 1;
    problem.heads = 2;
    return recorded(make_call(problem, seed, arithmetic, InputKind::ramped_k));
}

/// The recording with other units than its kernel's.
MemoryRecording misdeclared(const Recording& recording, const Units& units) {
    return declared_as(recording, recording.problem(), units,
                       make_inputs(recording.problem(), InputKind::ramped_k, seed));
}

class EverySoftmax : public ::testing::TestWithParam<int> {};

TEST_P(EverySoftmax, MatchesWithEveryCastAndOrder) {
    for (const Dtype p_operand : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3}) {
        for (const bool dumps_cast_p : {false, true}) {
            for (const bool l_sums_cast_p : {false, true}) {
                for (const KvOrder order : {KvOrder::forward, KvOrder::reverse}) {
                    Arithmetic arithmetic;
                    arithmetic.softmax = Softmax(GetParam());
                    arithmetic.p_operand = p_operand;
                    arithmetic.dumps_cast_p = dumps_cast_p;
                    arithmetic.l_sums_cast_p = l_sums_cast_p;
                    arithmetic.kv_order = order;
                    arithmetic.lse_log_base = dumps_cast_p ? LogBase::two : LogBase::e;
                    SCOPED_TRACE(describe(arithmetic));
                    EXPECT_TRUE(matches(run_with(arithmetic)));
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Units, EverySoftmax, ::testing::Range(0, softmaxes));

struct Misdeclaration {
    const char* what;
    Arithmetic arithmetic;
    void (*change)(Units&);
    Stage blamed;
};

std::vector<Misdeclaration> misdeclarations() {
    Arithmetic natural;
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

TEST(Units, WrongDeclarationIsBlamedOnItsStage) {
    for (const Misdeclaration& wrong : misdeclarations()) {
        SCOPED_TRACE(wrong.what);
        const MemoryRecording run = run_with(wrong.arithmetic);
        ASSERT_TRUE(matches(run));
        Units units = run.units();
        wrong.change(units);
        const Report report = judged(misdeclared(run, units));
        EXPECT_EQ(report.guilty, wrong.blamed) << verdict_line(report);
    }
}

TEST(Units, ValuesAreReportedInTheUnitsOfTheDump) {
    Arithmetic arithmetic;
    arithmetic.softmax = Softmax::raw_exp2;
    MemoryRecording run = run_with(arithmetic);
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
