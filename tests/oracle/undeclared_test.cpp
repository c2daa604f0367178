// What masked scores hold, a cast of s, and the scale in q as staged: a match where it is declared. Where it is
// not, it is no fault, and no match either.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "oracle/formula/estimate.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 31;

/// Why there is no verdict; what the verdict is where there is one.
std::string outcome(const Recording& recording) {
    const Report report = report_of(recording, one_thread());
    return report.unjudged.empty() ? verdict_line(report) : report.unjudged;
}

void expect_unjudged(const Recording& recording, const std::string& declaration) {
    const std::string why = outcome(recording);
    EXPECT_NE(why.find("no attribute declares " + declaration), std::string::npos) << why;
    EXPECT_THROW(judged(recording), NoVerdict);
}

/// What the kernel does to its scores is declared, or not.
MemoryRecording run(const Problem& problem, const Arithmetic& arithmetic, bool declared = false) {
    const Call call = make_call(problem, seed, arithmetic);
    const MemoryRecording honest = recorded(call);
    Units units = honest.units();
    if (declared) return declared_as(honest, problem, units, call.inputs);
    units.s_masked_value = -double(infinity);
    units.s_cast = Dtype::f32;
    return declared_as(honest, problem, units, call.inputs);
}

void expect_to_need(const std::string& declaration, const Problem& problem, const Arithmetic& arithmetic) {
    expect_unjudged(run(problem, arithmetic), declaration);
    const MemoryRecording declared = run(problem, arithmetic, true);
    EXPECT_TRUE(all_match(judged(declared))) << outcome(declared);
}

Arithmetic masking_with(float number) {
    Arithmetic arithmetic;
    arithmetic.masked_s = number;
    return arithmetic;
}

MemoryRecording run_masked_with(float number) {
    return run(small_problem(Mask::causal), masking_with(number));
}

TEST(Undeclared, NumbersInMaskedScores) {
    for (const float number : {-std::numeric_limits<float>::max(), -1e9f, -65504.0f, -1e4f})
        expect_to_need("the value that masked scores hold", small_problem(Mask::causal),
                       masking_with(number));
}

/// A first tile that is hidden altogether has the number as its maximum and ones as its P; the next tile
/// wipes them out.
TEST(Undeclared, NumbersInATileThatIsHiddenAltogether) {
    for (const KvOrder order : {KvOrder::forward, KvOrder::reverse}) {
        Arithmetic arithmetic;
        arithmetic.masked_s = -1e9f;
        arithmetic.kv_order = order;
        arithmetic.skips_hidden_tiles = false;
        Problem problem = small_problem(Mask::causal);
        problem.window_left = 20;
        expect_to_need("the value that masked scores hold", problem, arithmetic);
    }
}

/// A row that sees nothing then averages all of V.
TEST(Undeclared, NumbersThatReachTheOutputAreWrong) {
    Arithmetic arithmetic;
    arithmetic.masked_s = -1e9f;
    arithmetic.skips_hidden_tiles = false;
    arithmetic.guards_rows_without_keys = false;
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = 24;
    EXPECT_EQ(judged(run(problem, arithmetic)).verdict, Verdict::diverged);
    EXPECT_EQ(judged(run(problem, arithmetic, true)).guilty, Stage::o);
    arithmetic.guards_rows_without_keys = true;
    EXPECT_TRUE(all_match(judged(run(problem, arithmetic, true))));
}

TEST(Undeclared, NumbersThatLeaveSomethingOfPAreWrong) {
    for (const float number : {0.0f, -30.0f}) {
        EXPECT_EQ(judged(run_masked_with(number)).guilty, Stage::s) << number;
        const MemoryRecording declared = run(small_problem(Mask::causal), masking_with(number), true);
        EXPECT_EQ(judged(declared).guilty, Stage::p) << number;
    }
}

/// The next tile multiplies what the hidden one left with exp(-30), where it is to forget it.
TEST(Undeclared, NumbersThatAHiddenTileLeavesAreWrong) {
    Arithmetic arithmetic = masking_with(-30);
    arithmetic.skips_hidden_tiles = false;
    Problem problem = small_problem();
    problem.window_left = 20;
    problem.window_right = 20;
    EXPECT_EQ(judged(run(problem, arithmetic, true)).verdict, Verdict::diverged);
}

TEST(Undeclared, OneNumberAmongInfinitiesIsWrong) {
    MemoryRecording recording = copy_of(run(small_problem(Mask::causal), {}));
    poke(recording, Stage::s, {0, 0, 0, 2}, 0, 15, -1e30f);
    EXPECT_EQ(judged(recording).guilty, Stage::s);
}

TEST(Undeclared, CastsOfScores) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        Arithmetic arithmetic;
        arithmetic.kept_s = dtype;
        expect_to_need("a cast of s", small_problem(), arithmetic);
        arithmetic.masked_s = -60000;
        expect_to_need("a cast of s", small_problem(Mask::causal), arithmetic);
        const MemoryRecording masked = run(small_problem(Mask::causal), arithmetic);
        expect_unjudged(masked, "a cast of s");
        expect_unjudged(masked, "the value that masked scores hold");
    }
}

/// It is judged twice, and shown once.
TEST(Undeclared, TilesAreShownOnce) {
    Arithmetic arithmetic;
    arithmetic.kept_s = Dtype::f16;
    const MemoryRecording rounded = run(small_problem(), arithmetic);
    std::multiset<std::pair<Stage, std::int64_t>> shown;
    std::multiset<std::pair<Stage, std::int64_t>> inherited;
    const auto number = [](const TileId& tile) {
        return ((tile.batch * 100 + tile.head) * 100 + tile.q_block) * 100 + tile.kv_tile;
    };
    JudgeOptions options = one_thread();
    options.observe = [&](Stage stage, const TileId& tile, const MatrixF&, const Estimate&) {
        shown.insert({stage, number(tile)});
    };
    options.observe_inherited = [&](Stage stage, const TileId& tile, const MatrixF&, const Estimate&,
                                    const Estimate&) {
        inherited.insert({stage, number(tile)});
    };
    EXPECT_THROW(judge(rounded, options), NoVerdict);
    for (const auto* seen : {&shown, &inherited}) {
        EXPECT_FALSE(seen->empty());
        for (const auto& tile : *seen) EXPECT_EQ(seen->count(tile), 1u);
    }
}

TEST(Undeclared, ScoresThatACastDoesNotExplainAreWrong) {
    Arithmetic arithmetic;
    arithmetic.kept_s = Dtype::f16;
    MemoryRecording recording = copy_of(run(small_problem(), arithmetic));
    const float held = peek(recording, Stage::s, {1, 2, 1, 3}, 3, 5);
    poke(recording, Stage::s, {1, 2, 1, 3}, 3, 5, held * 1.00390625f);
    EXPECT_EQ(judged(recording).guilty, Stage::s) << "further off than half an ulp";
    poke(recording, Stage::s, {1, 2, 1, 3}, 3, 5, std::nextafter(held, 0.0f));
    EXPECT_EQ(judged(recording).guilty, Stage::s) << "no number of float16";
    poke(recording, Stage::s, {1, 2, 1, 3}, 3, 5, infinity);
    EXPECT_EQ(judged(recording).guilty, Stage::s) << "beyond the range of float16";
}

TEST(Undeclared, OtherFaultsAreBlamedAllTheSame) {
    Arithmetic arithmetic;
    arithmetic.kept_s = Dtype::f16;
    const MemoryRecording masked = run_masked_with(-1e9f);
    const MemoryRecording rounded = run(small_problem(), arithmetic);
    for (const MemoryRecording* kernel : {&masked, &rounded}) {
        const Report report = judged(poked(*kernel, Stage::acc, {1, 2, 1, 3}, 3, 5, 7));
        EXPECT_EQ(report.guilty, Stage::acc) << verdict_line(report);
        ASSERT_FALSE(report.warnings.empty());
        EXPECT_NE(report.warnings.back().find("no attribute declares"), std::string::npos);
    }
}

/// Declared, the products of the staged q are the scores as the softmax takes them.
TEST(Declared, ScaleInQ) {
    for (const Dtype cast : {Dtype::f16, Dtype::f32}) {
        Units units;
        units.q_scale = 0.1;
        units.q_cast = cast;
        const MemoryRecording recording = folded(seed, 0.1, units, false);
        EXPECT_EQ(judged(recording).guilty.has_value(), cast == Dtype::f32) << outcome(recording);
        EXPECT_EQ(judged(folded(seed, 0.1, units, true)).guilty, cast == Dtype::f32 ? Stage::q : Stage::s);
        EXPECT_EQ(judged(folded(seed, 0.125, units, false)).guilty, Stage::q);
    }
}

/// The same where q itself is not recorded.
TEST(Declared, ScaleInQThatIsNotRecorded) {
    Units units;
    units.q_scale = 0.1;
    units.q_cast = Dtype::f16;
    const Report report = judged(with_stages(folded(seed, 0.1, units, false), {Stage::s, Stage::o}));
    EXPECT_FALSE(report.guilty) << verdict_line(report);
    EXPECT_GT(report.stage(Stage::s).tally.compared, 0);
}

TEST(Undeclared, ScaleInQ) {
    expect_unjudged(folded(seed, 0.1, {}, false), "a scale of q as staged");
    expect_unjudged(with_stages(folded(seed, 0.1, {}, false), {Stage::q, Stage::o}),
                    "a scale of q as staged");
}

TEST(Undeclared, ScaleInQAndOnceMoreIsWrong) {
    EXPECT_EQ(judged(folded(seed, 0.1, {}, true)).guilty, Stage::q);
}

}  // namespace
}  // namespace tilescope::test
