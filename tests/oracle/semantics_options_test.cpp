// Every option of a call: a kernel that does what is declared matches, and one that does something else is
// blamed on the stage where it does.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 83;

/// A mistake: `declares` sets the call up, `mistakes` changes what the kernel makes of it.
struct Case {
    const char* name;
    Stage blamed;
    void (*declares)(Call&);
    void (*mistakes)(Call&, Plant&);
};

void rotate(std::vector<float>& values) {
    std::ranges::rotate(values, values.begin() + 1);
}

void set_slopes(Call& call, Alibi alibi) {
    call.problem.alibi = alibi;
    add_slopes_and_sinks(call.problem, seed, call.inputs);
}

void set_sink(Call& call, AttentionSink sink) {
    call.problem.sink = sink;
    add_slopes_and_sinks(call.problem, seed, call.inputs);
}

void set_bias(Call& call) {
    const Problem& p = call.problem;
    call.inputs.bias = {1, p.heads, p.seqlen_q, p.seqlen_kv, {}};
    fill_bias(0, seed, call.inputs.bias);
}

void set_fp8(Call& call, std::int64_t blocks_of) {
    Problem& p = call.problem;
    p.dtype_q = p.dtype_k = p.dtype_v = Dtype::e4m3;
    call.inputs = make_inputs(p, InputKind::normal, seed);
    SideInputs& side = call.inputs.side;
    const auto blocks = [&](std::int64_t rows) {
        return blocks_of == 0 ? 1 : (rows + blocks_of - 1) / blocks_of;
    };
    const auto rows = [&](std::int64_t all) { return blocks_of == 0 ? all : blocks_of; };
    side.descale_q = make_descale(p, p.heads, blocks(p.seqlen_q), rows(p.seqlen_q), seed);
    side.descale_k = make_descale(p, p.heads_kv, blocks(p.seqlen_kv), rows(p.seqlen_kv), seed + 1);
    side.descale_v = make_descale(p, p.heads_kv, blocks(p.seqlen_kv), rows(p.seqlen_kv), seed + 2);
    call.arithmetic.q.cast = call.arithmetic.k.cast = call.arithmetic.v.cast = Dtype::f16;
}

void keep_raw(Call& call) {
    Arithmetic& a = call.arithmetic;
    a.q.dequantises = a.k.dequantises = a.v.dequantises = false;
}

void declare_nothing(Call&) {}
void set_window(Call& call) {
    call.problem.window_left = 9;
    call.problem.window_right = 4;
}
void set_cap(Call& call) {
    call.problem.logits_soft_cap = 2;
}
void set_splits(Call& call) {
    call.problem.kv_tiles_per_split = 2;
}
void set_lanes(Call& call) {
    call.problem.l_lanes = 4;
    call.problem.l_lane_columns = 2;
}
/// P is scaled for its cast, and only acc takes that along.
void set_p_scale(Call& call) {
    call.arithmetic.p_operand = Dtype::e4m3;
    call.arithmetic.p_scale = 256;
    call.arithmetic.l_scaled = false;
}
/// More rows than keys: the first rows of a causal mask see nothing.
void set_empty_rows(Call& call) {
    call.problem.mask = Mask::causal;
    call.problem.seqlen_kv = 24;
    call.inputs = make_inputs(call.problem, InputKind::normal, seed);
}

const Case cases[] = {
    {"slope of the next head", Stage::s, [](Call& c) { set_slopes(c, Alibi::linear); },
     [](Call& c, Plant&) { rotate(c.inputs.side.alibi_slopes); }},
    {"distance to the right counted as to the left", Stage::s, [](Call& c) { set_slopes(c, Alibi::linear); },
     [](Call& c, Plant&) { c.problem.alibi = Alibi::distance; }},
    {"slopes left out", Stage::s, [](Call& c) { set_slopes(c, Alibi::distance); },
     [](Call& c, Plant&) { c.problem.alibi = Alibi::none; }},
    {"diagonal of the other corner", Stage::s, [](Call& c) { set_slopes(c, Alibi::distance); },
     [](Call& c, Plant&) { c.problem.causal_alignment = CausalAlignment::top_left; }},
    {"bias of the next row", Stage::s, set_bias,
     [](Call& c, Plant&) {
         std::vector<float>& values = c.inputs.bias.values;
         std::ranges::rotate(values, values.begin() + c.problem.seqlen_kv);
     }},
    {"bias left out", Stage::s, set_bias, [](Call& c, Plant&) { c.inputs.bias = {}; }},
    {"window of one key less", Stage::s, set_window,
     [](Call& c, Plant&) { c.problem.window_bounds = WindowBounds::exclusive; }},
    {"soft cap left out", Stage::s, set_cap, [](Call& c, Plant&) { c.problem.logits_soft_cap = 0; }},
    {"soft cap after the mask", Stage::s,
     [](Call& c) {
         set_cap(c);
         c.problem.mask = Mask::causal;
     },
     [](Call&, Plant& plant) { plant.mistake = Mistake::masked_before_cap; }},
    {"descale of q of the next head", Stage::q, [](Call& c) { set_fp8(c, 0); },
     [](Call& c, Plant&) { rotate(c.inputs.side.descale_q.values); }},
    {"descale of k of the next block", Stage::k, [](Call& c) { set_fp8(c, 16); },
     [](Call& c, Plant&) { rotate(c.inputs.side.descale_k.values); }},
    {"descale of v left out", Stage::v, [](Call& c) { set_fp8(c, 0); },
     [](Call& c, Plant&) { c.inputs.side.descale_v = {}; }},
    {"descale of q of the next head in the scores", Stage::s,
     [](Call& c) {
         set_fp8(c, 0);
         keep_raw(c);
     },
     [](Call& c, Plant&) { rotate(c.inputs.side.descale_q.values); }},
    {"descale of k of the next block in the scores", Stage::s,
     [](Call& c) {
         set_fp8(c, 16);
         keep_raw(c);
     },
     [](Call& c, Plant&) { rotate(c.inputs.side.descale_k.values); }},
    {"descale of v of the next block in the products", Stage::acc,
     [](Call& c) {
         set_fp8(c, 16);
         keep_raw(c);
     },
     [](Call& c, Plant&) { rotate(c.inputs.side.descale_v.values); }},
    {"descale of v left out of o", Stage::o,
     [](Call& c) {
         set_fp8(c, 0);
         keep_raw(c);
         c.arithmetic.acc_dequantised = false;
     },
     [](Call& c, Plant&) { std::ranges::fill(c.inputs.side.descale_v.values, 1.0f); }},
    {"sink left out", Stage::o, [](Call& c) { set_sink(c, AttentionSink::last); },
     [](Call& c, Plant&) { c.problem.sink = AttentionSink::none; }},
    {"sink added twice", Stage::o, [](Call& c) { set_sink(c, AttentionSink::last); },
     [](Call& c, Plant&) {
         for (float& sink : c.inputs.side.sink) sink += float(std::numbers::ln2);
     }},
    {"sink of the next head", Stage::o, [](Call& c) { set_sink(c, AttentionSink::last); },
     [](Call& c, Plant&) { rotate(c.inputs.side.sink); }},
    {"sink left out of lse", Stage::lse, [](Call& c) { set_sink(c, AttentionSink::last); },
     [](Call& c, Plant&) { c.arithmetic.lse_includes_sink = false; }},
    {"sink left out of the first state", Stage::l,
     [](Call& c) {
         set_sink(c, AttentionSink::first);
         // Below every maximum, so that m does not show it.
         std::ranges::fill(c.inputs.side.sink, -1.0f);
     },
     [](Call& c, Plant&) { c.problem.sink = AttentionSink::none; }},
    {"split left out", Stage::o, set_splits,
     [](Call&, Plant& plant) { plant.mistake = Mistake::split_dropped; }},
    {"plain average of the splits", Stage::o, set_splits,
     [](Call&, Plant& plant) { plant.mistake = Mistake::splits_averaged; }},
    {"state not begun anew", Stage::m, set_splits, [](Call& c, Plant&) { c.problem.kv_tiles_per_split = 3; }},
    {"lanes of other columns", Stage::l, set_lanes, [](Call& c, Plant&) { c.problem.l_lane_columns = 1; }},
    {"scale of p not divided out", Stage::o, set_p_scale,
     [](Call&, Plant& plant) { plant.mistake = Mistake::p_scale_left_in_o; }},
    {"scale of p left out", Stage::p, set_p_scale, [](Call& c, Plant&) { c.arithmetic.p_scale = 1; }},
    {"lse to the base two", Stage::lse, declare_nothing,
     [](Call& c, Plant&) { c.arithmetic.lse_log_base = LogBase::two; }},
    {"NaN in rows that see nothing", Stage::o, set_empty_rows,
     [](Call& c, Plant&) { c.arithmetic.o_empty_row = EmptyRow::nan; }},
    {"lse of +inf in rows that see nothing", Stage::lse, set_empty_rows,
     [](Call& c, Plant&) { c.arithmetic.lse_empty_row = EmptyRow::plus_infinity; }},
    {"lse of 0 in rows that see nothing", Stage::lse, set_empty_rows,
     [](Call& c, Plant&) { c.arithmetic.lse_empty_row = EmptyRow::zero; }},
};

Call call_of(const Case& wrong) {
    Call call;
    call.problem = small_problem();
    call.inputs = make_inputs(call.problem, InputKind::normal, seed);
    wrong.declares(call);
    return call;
}

class Options : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Options, MatchAsDeclaredAndAreBlamedOnTheirStageOtherwise) {
    const Case& wrong = cases[GetParam()];
    SCOPED_TRACE(wrong.name);
    const Call declared = call_of(wrong);
    const MemoryRecording healthy = recorded(declared);
    EXPECT_TRUE(matches(healthy));

    Call computed = declared;
    Plant plant;
    wrong.mistakes(computed, plant);
    const MemoryRecording run = recorded(computed, plant);
    const Report report = judged(declared_as(run, healthy.problem(), healthy.units(), declared.inputs));
    ASSERT_EQ(report.guilty, wrong.blamed) << verdict_line(report);
}

INSTANTIATE_TEST_SUITE_P(Semantics, Options, ::testing::Range<std::size_t>(0, std::size(cases)),
                         [](const auto& param) {
                             std::string name = cases[param.param].name;
                             std::ranges::replace_if(
                                 name,
                                 [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; },
                                 '_');
                             return name;
                         });

/// Where the mask comes before the cap, hidden keys get its limit.
TEST(Options, CapAfterTheMaskLeavesItsLimitInPlaceOfMinusInfinity) {
    Call call;
    call.problem = small_problem(Mask::causal);
    call.problem.logits_soft_cap = 2;
    call.inputs = make_inputs(call.problem, InputKind::normal, seed);
    const MemoryRecording run = recorded(call, {Mistake::masked_before_cap});
    const Report report = judged(run);
    ASSERT_EQ(report.guilty, Stage::s);
    EXPECT_EQ(report.first_divergence->finding, Finding::infinite);
    EXPECT_EQ(report.first_divergence->got, -2);
    EXPECT_EQ(report.first_divergence->expected, -std::numeric_limits<double>::infinity());
}

/// Nothing is expected beyond the lengths of a batch entry, and what lies there is not compared.
TEST(Options, LengthsOfABatchEntryEndItsTiles) {
    Call call;
    call.problem = small_problem();
    call.inputs = make_inputs(call.problem, InputKind::normal, seed);
    call.inputs.side.seqlens_q = {17, 0};
    call.inputs.side.seqlens_kv = {33, 72};
    MemoryRecording run = recorded(call);
    run.set_capture(everything_selected());
    EXPECT_TRUE(run.has_tile(Stage::s, {0, 0, 1, 2}));
    EXPECT_FALSE(run.has_tile(Stage::s, {0, 0, 0, 3}));
    EXPECT_FALSE(run.has_tile(Stage::o, {1, 0, 0, 0}));
    const Report report = judged(run);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.stage(Stage::s).tally.compared, 4 * 17 * 33);
    EXPECT_EQ(report.stage(Stage::o).tally.compared, 4 * 17 * 16);
    run.remove_tile(Stage::s, {0, 3, 1, 2});
    EXPECT_EQ(judged(run).guilty, Stage::s) << "a tile inside the lengths is missing";
}

/// An exponential of a degree that takes 1e-4 is one where that is declared, and wrong where it is not.
TEST(Options, ErrorOfAnExponentialOfTheKernelsOwn) {
    const Problem problem = small_problem();
    const Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    Arithmetic polynomial;
    polynomial.exp_error = 1e-4;
    const MemoryRecording run = recorded({problem, polynomial, inputs});
    EXPECT_TRUE(matches(run));
    EXPECT_EQ(judged(declared_as(run, problem, units_of({}), inputs)).guilty, Stage::p);
}

/// Rounding in float16 or in 14 bits is no fault where it is declared, and one where it is not.
TEST(Options, PrecisionOfTheSums) {
    Problem problem = small_problem();
    problem.dtype_q = problem.dtype_k = problem.dtype_v = Dtype::e4m3;
    const Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    for (const Sum sum : {Sum::fp8, Sum::half_fma, Sum::half_tensor_core}) {
        Arithmetic coarse;
        coarse.score_sum = coarse.pv_sum = sum;
        coarse.p_operand = Dtype::e4m3;
        const MemoryRecording run = recorded({problem, coarse, inputs});
        EXPECT_TRUE(matches(run));
        Units fine = units_of(coarse);
        fine.s_accumulation = fine.acc_accumulation = Accumulation::fma_f32;
        const Report report = judged(declared_as(run, run.problem(), fine, inputs));
        // A tensor core rounds a sum of 16 terms once: that is s kept in float16, which is no fault of s.
        const bool rounds_once = sum == Sum::half_tensor_core;
        EXPECT_EQ(report.guilty, rounds_once ? Stage::acc : Stage::s) << verdict_line(report);
        EXPECT_EQ(report.stage(Stage::s).undeclared, rounds_once ? "s is rounded to f16" : "");
    }
}

}  // namespace
}  // namespace tilescope::test
