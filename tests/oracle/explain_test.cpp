// The terms of a tolerance add up to the one that judge() uses, and hold what was worked out by hand.

#include "oracle/explain/explain.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oracle/judge.h"
#include "tests/oracle/explain_checks.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"
#include "tests/support/error_of.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

class Terms : public BothPasses {};

TEST_P(Terms, AddUpToTheToleranceOfRandomCalls) {
    Seen seen;
    for (std::uint64_t seed = 1; seed <= tried_seeds(is_forward() ? 300 : 200) && !HasFailure(); ++seed) {
        const Call call = random_call(direction(), seed);
        SCOPED_TRACE(how_to_repeat(seed, call));
        Random random(seed);
        compare_some(recorded(call), random, seen);
    }
    expect_seen(seen, direction(),
                "sum of products, certain; sum of products, probable; exponential; store to f16; store to "
                "bf16; own error of the oracle; flush to zero");
    constexpr auto forward =
        "sum in float16 near zero; operands cut to tf32; sm_scale and other factors; division by the soft "
        "cap; tanhf of the soft cap; tanh.approx of the soft cap; ALiBi and bias; adding the bias; "
        "conversion of m; m may stay behind; argument s - m; scale of p; cast of p to bf16; sum of P, "
        "certain; rescaling, adding the tile; factor exp(m before - m); joining the splits; adding the "
        "lanes of l; sink; acc / l; logarithm; adding m and ln l; product with the descale";
    constexpr auto backward =
        "argument s - lse; dp - delta; products with dp - delta; derivative of the soft cap; cast of ds to "
        "f16; cast of ds to bf16; products within tiles; adding up, in any order; factor after the sum; "
        "product with descale_v";
    expect_seen(seen, direction(), is_forward() ? forward : backward);
}

TEST_P(Terms, AddUpWhereStagesWereNotCaptured) {
    Seen seen;
    const std::uint64_t first = is_forward() ? 301 : 201;
    const std::uint64_t last = is_forward() ? 700 : 450;
    for (std::uint64_t seed = first; seed <= last && !HasFailure(); ++seed) {
        const Call call = random_call(direction(), seed);
        MemoryRecording run = recorded(call);
        Random random(seed);
        const std::string left = thin_out(run, random);
        if (left.empty()) continue;
        SCOPED_TRACE("stages " + left + ", " + how_to_repeat(seed, call));
        compare_some(run, random, seen);
    }
    constexpr auto forward =
        "s, not dumped; m, not dumped; m before, not dumped; p, not dumped; p before its cast, not dumped; "
        "l, not dumped; l before, not dumped; acc, not dumped; acc before, not dumped; q, k not dumped, "
        "scaled or dequantised; v not dumped, dequantised; sink in the units of m";
    constexpr auto backward =
        "s, not dumped; p, not dumped; dp, not dumped; delta, not dumped; ds, not dumped or cast; p, not "
        "dumped or cast; v not dumped, dequantised; k not dumped, scaled or dequantised; q not dumped, "
        "scaled or "
        "dequantised";
    expect_seen(seen, direction(), is_forward() ? forward : backward);
}

TILESCOPE_TEST_BOTH_PASSES(Terms);

Explanation explained(const Recording& recording, const std::string& text) {
    return explain_tolerance(recording, element_place(recording, text));
}

TEST(Explain, TermsAddUpBesideNaNInV) {
    Problem problem = small_problem(Mask::causal);
    problem.batch = 1;
    Inputs inputs = make_inputs(problem, InputKind::normal, 4);
    inputs.v_at(problem, 0, 0, 5, 3) = nan;
    const MemoryRecording run = recorded({problem, {}, inputs});
    Seen seen;
    Random random(4);
    for (int i = 0; i < 20; ++i) compare_some(run, random, seen);
    EXPECT_GT(seen.elements[static_cast<std::size_t>(Stage::acc)], 0);
}

/// One row that sees one key: q.k = 16 times 0.5 * 0.25 = 2, times 0.25.
MemoryRecording one_score() {
    Problem p;
    p.head_dim = p.head_dim_v = 16;
    p.sm_scale = 0.25;
    Units units;
    units.lse_log_base = LogBase::two;
    MemoryRecording recording(p, units);
    recording.set_input(Input::q, std::vector<float>(16, 0.5F));
    recording.set_input(Input::k, std::vector<float>(16, 0.25F));
    recording.set_input(Input::v, std::vector<float>(16, 3.0F));
    for (const auto& [stage, value] : {std::pair{Stage::s, 0.5F},
                                       {Stage::m, 0.5F},
                                       {Stage::p, 1.0F},
                                       {Stage::l, 1.0F},
                                       {Stage::lse, 0.721F}})
        recording.set_tile(stage, {}, {value});
    for (const auto& [stage, value] : {std::pair{Stage::acc, 3.0F}, {Stage::o, 3.0F}})
        recording.set_tile(stage, {}, std::vector<float>(16, value));
    return recording;
}

TEST(Explain, TermsOfOneScoreByHand) {
    constexpr double u = 0x1p-24;
    const MemoryRecording recording = one_score();
    const Explanation s = explained(recording, "s,0,0,0,0");
    // Every partial sum of the one chunk is at most |2| + |q| |k| / 2 = 2 + 2 * 1 / 2.
    EXPECT_NEAR(value_of(s, "sum of products, certain") / (16 * 3 * 0.25 * u), 1, 2e-3);
    EXPECT_NEAR(value_of(s, "sm_scale and other factors") / (0.5 * u), 1, 1e-6);
    EXPECT_DOUBLE_EQ(value_of(s, "own error of the oracle"), 0.5 * 0x1p-48);

    const Explanation p = explained(recording, "p,0,0,0,0");
    EXPECT_NEAR(value_of(p, "exponential") / (4 * u), 1, 1e-6);
    EXPECT_NEAR(value_of(p, "argument s - m") / u, 1, 1e-6);

    const Explanation l = explained(recording, "l,0,0,0,0");
    // Nothing was there to rescale: adding 1 is left.
    EXPECT_NEAR(value_of(l, "rescaling, adding the tile") / u, 1, 1e-6);
    EXPECT_EQ(value_of(l, "factor exp(m before - m)"), 0);

    const Explanation o = explained(recording, "o,0,0,0,7");
    EXPECT_NEAR(value_of(o, "store to f16") / (3 * 0x1p-11 + 0x1p-25), 1, 1e-5);
    EXPECT_NEAR(value_of(o, "acc / l") / (4 * 3 * u), 1, 1e-6);

    const Explanation lse = explained(recording, "lse,0,0,0,0");
    const double log2e = 1.4426950408889634;
    EXPECT_NEAR(lse.element.expected, 0.5 * log2e, 1e-12);
    EXPECT_NEAR(value_of(lse, "logarithm") / (std::pow(2, -21.41) * log2e), 1, 1e-6);
    EXPECT_NEAR(value_of(lse, "adding m and ln l") / (5 * u * 0.5 * log2e), 1, 1e-6);
}

/// One row and one key with 16 features: dout = 2, v = 0.5, o = 0.5, q = k = 1, lse = s = 16 / 4, p = 1.
MemoryRecording one_gradient() {
    Problem p;
    p.direction = Direction::backward;
    p.head_dim = p.head_dim_v = 16;
    p.sm_scale = 0.25;
    MemoryRecording recording(p);
    for (const auto& [input, value] : {std::pair{Input::q, 1.0F},
                                       {Input::k, 1.0F},
                                       {Input::v, 0.5F},
                                       {Input::dout, 2.0F},
                                       {Input::o, 0.5F}})
        recording.set_input(input, std::vector<float>(16, value));
    recording.set_input(Input::lse, {4.0F});
    for (const auto& [stage, value] : {std::pair{Stage::s, 4.0F},
                                       {Stage::p, 1.0F},
                                       {Stage::delta, 14.0F},
                                       {Stage::dp, 16.0F},
                                       {Stage::ds, 2.0F}})
        recording.set_tile(stage, {}, {value});
    for (const auto& [stage, value] : {std::pair{Stage::dq, 0.5F}, {Stage::dk, 0.5F}, {Stage::dv, 2.0F}})
        recording.set_tile(stage, {}, std::vector<float>(16, value));
    return recording;
}

TEST(Explain, TermsOfOneGradientByHand) {
    constexpr double u = 0x1p-24;
    const MemoryRecording recording = one_gradient();
    const Explanation delta = explained(recording, "delta,0,0,0,0");
    EXPECT_EQ(delta.element.expected, 16);
    // 16 terms of 1: every partial sum is at most 16 + 16 / 2.
    EXPECT_NEAR(value_of(delta, "sum of products, certain") / (16 * 24 * u), 1, 2e-3);

    // From the dumped delta of 14.
    const Explanation ds = explained(recording, "ds,0,0,0,0");
    EXPECT_EQ(ds.element.expected, 2);
    EXPECT_NEAR(value_of(ds, "dp - delta") / (2 * u), 1, 1e-6);
    EXPECT_NEAR(value_of(ds, "products with dp - delta") / (3 * 2 * u), 1, 1e-6);
    EXPECT_EQ(value_of(ds, "delta, not dumped"), 0);

    // One term of 2 in one tile, times 0.25.
    const Explanation dq = explained(recording, "dq,0,0,0,3");
    EXPECT_EQ(dq.element.expected, 0.5);
    EXPECT_NEAR(value_of(dq, "adding up, in any order") / (0.25 * 2 * 2 * u), 1, 2e-3);
    EXPECT_NEAR(value_of(dq, "factor after the sum") / (4 * 0.5 * u), 1, 1e-6);
    EXPECT_NEAR(value_of(dq, "store to f16") / (0.5 * 0x1p-11), 1, 1e-3);

    const Explanation dv = explained(recording, "dv,0,0,0,3");
    EXPECT_EQ(dv.element.expected, 2);
    EXPECT_EQ(value_of(dv, "factor after the sum"), 0);
}

TEST(Explain, ConfidenceSetsTheProbableBound) {
    Problem problem = small_problem();
    problem.batch = 1;
    problem.head_dim = 128;
    const MemoryRecording run = recorded(make_call(problem, 5));
    const ElementPlace place = element_place(run, "s,0,1,3,20");
    // 4 heads, 40 rows and 72 keys in whole tiles of 16 x 16, and 10 captured stages.
    for (const double confidence : {1 - 1e-6, 0.5}) {
        const Explanation s = explain_tolerance(run, place, confidence);
        const double elements = 4 * 48 * 80;
        EXPECT_NEAR(s.lambda, std::sqrt(2 * std::log(2 * 10 * elements / (1 - confidence))), 1e-9);
        EXPECT_LT(value_of(s, "sum of products, probable"), value_of(s, "sum of products, certain"));
        const double used = s.terms.total();
        EXPECT_GT(used, value_of(s, "sum of products, probable"));
        EXPECT_LT(used, value_of(s, "sum of products, certain") + value_of(s, "sum of products, probable"));
    }
}

TEST(Explain, PlacesFollowFromTheStage) {
    const MemoryRecording run = recorded(make_call(small_problem(Mask::causal), 6));
    const auto tile_of = [&](const char* text) { return element_place(run, text).tile; };
    EXPECT_EQ(tile_of("q,1,2,17,3"), (TileId{1, 2, 1, 0}));
    EXPECT_EQ(tile_of("k,1,2,17,3"), (TileId{1, 2, 0, 1}));
    EXPECT_EQ(tile_of("v,1,2,71,3,2"), (TileId{1, 2, 2, 4}));
    EXPECT_EQ(tile_of("s,0,0,39,71"), (TileId{0, 0, 2, 4}));
    EXPECT_EQ(tile_of("m,0,0,20,0,1"), (TileId{0, 0, 1, 1}));
    // Row 31, the last of its block, sees keys up to 63.
    EXPECT_EQ(tile_of("m,0,0,20,0"), (TileId{0, 0, 1, 3}));
    EXPECT_EQ(tile_of("lse,0,0,20,0"), (TileId{0, 0, 1, 0}));
    Arithmetic reverse;
    reverse.kv_order = KvOrder::reverse;
    const MemoryRecording other = recorded(make_call(small_problem(), 6, reverse));
    EXPECT_EQ(element_place(other, "acc,0,0,20,0").tile, (TileId{0, 0, 1, 0}));
    EXPECT_EQ(element_place(one_gradient(), "dk,0,0,0,15").tile, TileId());
}

TEST(Explain, RefusesWhatIsNotThere) {
    MemoryRecording run = recorded(make_call(small_problem(), 7));
    run.remove_tile(Stage::p, {0, 0, 0, 1});
    const std::vector<std::pair<const char*, const char*>> cases = {
        {"x,0,0,0,0", "there is no stage \"x\""},
        {"s,0,0,0", "has 4 fields; give s,BATCH,HEAD,ROW,COL"},
        {"s,0,0,0,0,0", "has 6 fields"},
        {"m,0,0,0,0,0,0", "has 7 fields; give m,BATCH,HEAD,ROW,COL[,KV_TILE]"},
        {"s,0,0,-1,0", "\"-1\" is not a number"},
        {"s,0,0,0,1x", "\"1x\" is not a number"},
        {"s,0,0,0,", "\"\" is not a number"},
        {"s,0,0,99999999999999999999,0", "is not a number"},
        {"s,2,0,0,0", "batch 2 is outside the problem; give one from 0 to 1"},
        {"s,0,4,0,0", "head 4 is outside the problem; give one from 0 to 3"},
        {"s,0,0,40,0", "row 40 is outside the problem; give one from 0 to 39"},
        {"s,0,0,0,72", "key 72 is outside the problem; give one from 0 to 71"},
        {"k,0,0,72,0", "key 72 is outside the problem"},
        {"k,0,0,0,0,3", "q block 3 is outside the problem"},
        {"lse,0,0,0,1", "column 1 is outside the problem; give one from 0 to 0"},
        {"acc,0,0,0,0,5", "KV tile 5 is outside the problem"},
        {"p,0,0,3,20", "the tile of p at batch 0, head 0, row 3, key 20, KV tile 1 was not captured"}};
    const auto refusal = [&](const std::string& text) { return error_of([&] { explained(run, text); }); };
    for (const auto& [text, why] : cases)
        EXPECT_NE(refusal(text).find(why), std::string::npos) << text << ": " << refusal(text);
    EXPECT_EQ(refusal("p,0,0,3,4"), "accepted");
    EXPECT_NE(error_of([] { explained(one_gradient(), "acc,0,0,0,0"); }).find("has no stage acc"),
              std::string::npos);
}

}  // namespace
}  // namespace tilescope::test
