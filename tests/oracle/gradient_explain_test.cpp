// The terms of a backward pass add up to the tolerance that judge() uses, and hold what was worked out by
// hand.

#include <gtest/gtest.h>

#include "dump/schema/error.h"
#include "tests/oracle/explain_checks.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

TEST(GradientExplain, TermsAddUpToTheToleranceOfRandomCalls) {
    Seen seen;
    for (std::uint64_t seed = 1; seed <= tried_seeds(200); ++seed) {
        const Call call = random_call(Direction::backward, seed);
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(call));
        Random random(seed);
        compare_some(recorded(call), random, seen);
        if (HasFailure()) break;
    }
    expect_seen(seen, Direction::backward,
                {"sum of products, certain", "sum of products, probable", "argument s - lse", "exponential",
                 "dp - delta", "products with dp - delta", "derivative of the soft cap", "cast of ds to f16",
                 "cast of ds to bf16", "products within tiles", "adding up, in any order",
                 "factor after the sum", "store to f16", "store to bf16", "product with descale_v",
                 "own error of the oracle", "flush to zero"});
}

TEST(GradientExplain, TermsAddUpWhereStagesWereNotCaptured) {
    Seen seen;
    for (std::uint64_t seed = 201; seed <= 450; ++seed) {
        const Call call = random_call(Direction::backward, seed);
        MemoryRecording recording = recorded(call);
        Random random(seed);
        const std::string left = thin_out(recording, random);
        if (left.empty()) continue;
        SCOPED_TRACE("seed " + std::to_string(seed) + ", stages " + left + ": " + describe(call));
        compare_some(recording, random, seen);
        if (HasFailure()) break;
    }
    expect_seen(seen, Direction::backward,
                {"s, not dumped", "p, not dumped", "dp, not dumped", "delta, not dumped",
                 "ds, not dumped or cast", "p, not dumped or cast", "v not dumped, dequantised",
                 "k not dumped, dequantised", "q not dumped, dequantised"});
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

Explanation explained(const Recording& recording, const std::string& text) {
    return explain_tolerance(recording, element_place(recording, text));
}

TEST(GradientExplain, TermsOfOneElementByHand) {
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

TEST(GradientExplain, PlacesFollowFromTheStage) {
    const MemoryRecording recording = one_gradient();
    EXPECT_EQ(element_place(recording, "dk,0,0,0,15").tile, TileId());
    try {
        explained(recording, "acc,0,0,0,0");
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("has no stage acc"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace tilescope::test
