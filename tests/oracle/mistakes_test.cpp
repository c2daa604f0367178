// The mistakes that comparison tools make, one test each. Two of the sixteen are not the oracle's to make:
// that a hook changes the kernel (9) is tested on the PTX and the outputs of the kernels, and that printing
// or a ring loses values (10) on the sink and the file, whose bits are compared; here 10 is about the report
// alone. A file that cannot be opened after the run was killed (14) is tested on the file; here it is what
// such a run is judged as.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "dump/schema/error.h"
#include "oracle/formula/estimate.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 61;
constexpr TileId some_tile{1, 2, 1, 2};
constexpr TileId last_tile{1, 2, 1, 4};

MemoryRecording healthy_run(Mask mask = Mask::none) {
    return recorded(make_call(small_problem(mask), seed, {}, InputKind::ramped_k));
}

TEST(Mistake01, NaNPassesNoComparison) {
    for (const StageInfo& info : stages_of(Direction::forward)) {
        MemoryRecording run = healthy_run();
        poke(run, info.stage, last_tile, 1, 0, nan);
        EXPECT_EQ(judged(run).guilty, info.stage);
        JudgeOptions loose = one_thread();
        loose.compare.atol = loose.compare.rtol = 1e30;
        EXPECT_EQ(judge(run, loose).guilty, info.stage) << "under any tolerance";
    }
}

TEST(Mistake01, NaNIsNotLostInAMaximum) {
    MemoryRecording run = healthy_run();
    poke(run, Stage::acc, last_tile, 1, 0, nan);
    poke(run, Stage::acc, last_tile, 1, 1, 1000);
    const Report report = judged(run);
    EXPECT_EQ(report.stage(Stage::acc).tally.nan, 1);
    EXPECT_GT(report.stage(Stage::acc).tally.max_abs, 900);
    EXPECT_TRUE(std::isnan(report.stage(Stage::acc).tally.worst[0].got));
}

TEST(Mistake02, MatchingInfinitiesOfTheMaskAreAMatch) {
    const MemoryRecording run = healthy_run(Mask::causal);
    ASSERT_TRUE(std::isinf(peek(run, Stage::s, {0, 0, 0, 2}, 0, 15)));
    const Report report = judged(run);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.stage(Stage::s).tally.infinite, 0);
}

TEST(Mistake03, BrokenCornerIsFoundThoughTheWholeLooksAlike) {
    Problem problem = small_problem();
    problem.seqlen_q = problem.seqlen_kv = 128;
    problem.batch = 1;
    problem.heads = problem.heads_kv = 1;
    problem.dtype_o = Dtype::f32;
    MemoryRecording run = recorded(make_call(problem, seed, {}, InputKind::ramped_k));
    // 32 of 2048 outputs off by 1 %: cosine and relative L2 over all of them stay below any usual threshold.
    double dot = 0;
    double before = 0;
    double after = 0;
    double difference = 0;
    for (std::int64_t row = 0; row < 128; ++row) {
        for (std::int64_t col = 0; col < 16; ++col) {
            const TileId tile{0, 0, row / 16, 0};
            const float value = peek(run, Stage::o, tile, row % 16, col);
            const float got = row >= 126 ? value * 1.005f : value;
            poke(run, Stage::o, tile, row % 16, col, got);
            dot += double(value) * double(got);
            before += double(value) * double(value);
            after += double(got) * double(got);
            difference += std::pow(double(got) - double(value), 2);
        }
    }
    ASSERT_GT(dot / std::sqrt(before * after), 0.999999);
    ASSERT_LT(std::sqrt(difference / before), 1e-3);
    const Report report = judged(run);
    ASSERT_EQ(report.guilty, Stage::o);
    EXPECT_EQ(report.stage(Stage::o).tally.outside, 32);
    EXPECT_EQ(report.first_divergence->row, 126);
}

TEST(Mistake04, ConstantOutputPassesNoDerivedTolerance) {
    for (const StageInfo& info : stages_of(Direction::forward)) {
        const MemoryRecording run = healthy_run();
        double sum = 0;
        std::int64_t count = 0;
        JudgeOptions options = one_thread();
        options.observe = [&](Stage stage, const TileId&, const MatrixF&, const Estimate& expected) {
            if (stage != info.stage) return;
            sum += expected.value.sum();
            count += expected.value.size();
        };
        judge(run, options);
        for (const double constant : {0.0, sum / double(count)}) {
            MemoryRecording recording = copy_of(run);
            change_stage(recording, info.stage, [&](auto...) { return float(constant); });
            EXPECT_EQ(judged(recording).guilty, info.stage) << info.name << " = " << constant;
            EXPECT_EQ(judged(with_stages(recording, {info.stage})).guilty, info.stage)
                << info.name << " alone";
        }
    }
}

TEST(Mistake04, ToleranceThatAConstantPassesIsMentioned) {
    const MemoryRecording run = healthy_run();
    EXPECT_TRUE(judged(run).warnings.empty());
    // Half of the way from the least to the greatest logarithm of a sum.
    const MemoryRecording logarithms = with_stages(run, {Stage::lse});
    const auto [least, most] = range_of(logarithms, Stage::lse);
    JudgeOptions loose = one_thread();
    loose.compare.atol = 0.51 * (most - least);
    const Report report = judge(logarithms, loose);
    EXPECT_EQ(report.verdict, Verdict::match);
    ASSERT_EQ(report.warnings.size(), 1u);
    EXPECT_NE(report.warnings[0].find("the whole of lse"), std::string::npos) << report.warnings[0];
    loose.compare.atol = 0.01;
    EXPECT_TRUE(judge(run, loose).warnings.empty());
}

/// A tolerance that reaches as far as any kernel could come compares nothing.
TEST(Mistake04, ToleranceThatEverythingPassesIsNoMatch) {
    const MemoryRecording run = healthy_run();
    JudgeOptions loose = one_thread();
    loose.compare.atol = 1e3;
    EXPECT_THROW(judge(run, loose), NoVerdict);
    const Report report = report_of(run, loose);
    EXPECT_EQ(report.stage(Stage::o).tally.compared, 0);
    EXPECT_GT(report.stage(Stage::o).tally.not_judged, 0);
    EXPECT_NE(report.unjudged.find("no element of o could be judged"), std::string::npos) << report.unjudged;
}

/// The tolerance is narrower than what the kernel could have stored, and a constant passes.
TEST(Mistake04, ConstantInPlaceOfAnOutputIsNoMatch) {
    const MemoryRecording run = healthy_run();
    MemoryRecording recording = with_stages(run, {Stage::lse});
    const auto [least, most] = range_of(recording, Stage::lse);
    const float middle = 0.5f * (least + most);
    change_stage(recording, Stage::lse, [&](auto...) { return middle; });
    EXPECT_EQ(judged(recording).verdict, Verdict::diverged);
    JudgeOptions loose = one_thread();
    loose.compare.atol = 0.51 * (most - least);
    EXPECT_NE(report_of(recording, loose).unjudged.find("everywhere, although"), std::string::npos);
}

TEST(Mistake05, OneUlpFailsNoStageThatRounds) {
    const MemoryRecording run = healthy_run();
    for (const Stage stage : {Stage::s, Stage::p, Stage::l, Stage::acc, Stage::lse}) {
        for (const float towards : {-1e30f, 1e30f}) {
            MemoryRecording recording = copy_of(run);
            const float value = peek(recording, stage, last_tile, 3, 0);
            poke(recording, stage, last_tile, 3, 0, std::nextafter(value, towards));
            EXPECT_TRUE(matches(with_stages(recording, {stage})));
        }
    }
}

TEST(Mistake06, ReversedOrderIsJudgedInItsOwnOrder) {
    const Problem problem = small_problem(Mask::causal);
    Arithmetic arithmetic;
    arithmetic.kv_order = KvOrder::reverse;
    const MemoryRecording run = recorded(make_call(problem, seed, arithmetic, InputKind::ramped_k));
    const Report report = judged(run);
    EXPECT_TRUE(matches(report));
}

TEST(Mistake07, RowsThatSeeNothingAreNoNaN) {
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = 10;
    const MemoryRecording run = recorded(make_call(problem, seed));
    const Report report = judged(run);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.stage(Stage::o).tally.compared, 2 * 4 * 40 * 16) << "these rows are compared as well";
    MemoryRecording wrong = recorded(make_call(problem, seed));
    for (std::int64_t col = 0; col < 16; ++col) poke(wrong, Stage::o, {0, 0, 0, 0}, 0, col, nan);
    EXPECT_EQ(judged(wrong).guilty, Stage::o);
}

TEST(Mistake08, TensorsThatWereMixedUpAreBlamedOnTheirStage) {
    const MemoryRecording run = healthy_run();
    for (const StageInfo& info : stages_of(Direction::forward)) {
        MemoryRecording recording = copy_of(run);
        // The tile of another head under this one's name.
        std::vector<float> other(std::size_t(tile_shape(run.problem(), info.stage).elements()));
        ASSERT_TRUE(run.read_tile(info.stage, {1, 0, 1, 4}, other));
        recording.set_tile(info.stage, last_tile, other);
        const Report report = judged(recording);
        ASSERT_EQ(report.guilty, info.stage);
        EXPECT_EQ(report.first_divergence->tile.head, 2);
        EXPECT_EQ(report.first_divergence->tile.q_block, 1);
    }
}

TEST(Mistake10, ReportPrintsValuesThatCanBeReadBack) {
    MemoryRecording run = healthy_run();
    const float odd = 1.00000012f;
    poke(run, Stage::p, last_tile, 1, 0, odd * 3);
    const Report report = judged(run);
    EXPECT_NE(to_text(report).find("3.00000048"), std::string::npos);
    const auto json = nlohmann::json::parse(to_json(report));
    EXPECT_EQ(json["first_divergence"]["got"].get<double>(), double(odd * 3));
    EXPECT_EQ(json["first_divergence"]["expected"].get<double>(), report.first_divergence->expected);
    EXPECT_EQ(json["first_divergence"]["tolerance"].get<double>(), report.first_divergence->tolerance);
}

TEST(Mistake11, FiniteSentinelIsNoScore) {
    MemoryRecording run = healthy_run(Mask::causal);
    const TileId tile{0, 0, 0, 2};
    ASSERT_TRUE(std::isinf(peek(run, Stage::s, tile, 0, 15)));
    poke(run, Stage::s, tile, 0, 15, -1e30f);
    const Report report = judged(run);
    ASSERT_EQ(report.guilty, Stage::s);
    EXPECT_EQ(report.first_divergence->finding, Finding::infinite);
    EXPECT_LT(report.stage(Stage::s).tally.max_abs, 1) << "the sentinel is in no statistic";
}

TEST(Mistake12, NaNOfVIsBlamedOnAccThoughSAndPAndLseAreFinite) {
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = problem.seqlen_q;
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    inputs.v_at(problem, 0, 0, 12, 3) = nan;
    // Rows before 12 do not see the key, but 0 * NaN reaches them.
    const MemoryRecording run = recorded({problem, {}, inputs});
    ASSERT_TRUE(std::isnan(peek(run, Stage::o, {0, 0, 0, 0}, 0, 3)));
    const Report report = judged(run);
    ASSERT_EQ(report.guilty, Stage::acc) << verdict_line(report);
    EXPECT_EQ(report.first_divergence->row, 0);
    EXPECT_EQ(report.first_divergence->col, 3);
    EXPECT_EQ(report.stage(Stage::acc).tally.nan, 2 * 12) << "12 rows of both heads that share the KV head";
    EXPECT_EQ(report.stage(Stage::o).tally.outside, 0);
}

TEST(Mistake13, NaNInPaddingIsNobodysBusiness) {
    // The recordings of these tests hold NaN in all padding: see Block::record.
    const Problem problem = small_problem();
    ASSERT_LT(tile_extent(problem, Stage::s, {0, 0, 2, 4}).elements(),
              tile_shape(problem, Stage::s).elements());
    const MemoryRecording run = healthy_run();
    ASSERT_TRUE(std::isnan(peek(run, Stage::s, {0, 0, 2, 4}, 15, 15)));
    const Report report = judged(run);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.stage(Stage::s).tally.compared, 2 * 4 * 40 * 72);
}

TEST(Mistake14, RunThatWasKilledIsJudgedByWhatItLeft) {
    MemoryRecording run = healthy_run();
    CaptureSummary capture = everything_selected();
    capture.ended = "killed";
    run.set_capture(capture);
    for (const StageInfo& info : stages_of(Direction::forward)) run.remove_tile(info.stage, last_tile);
    EXPECT_THROW(judged(run), Error);
    poke(run, Stage::p, some_tile, 0, 0, 3);
    EXPECT_EQ(judged(run).guilty, Stage::p);
}

TEST(Mistake15, ToleranceOfANegativeReferenceIsPositive) {
    const Problem problem = small_problem();
    MemoryRecording run = recorded(make_call(problem, seed, {}, InputKind::negative));
    const float score = peek(run, Stage::s, some_tile, 1, 1);
    ASSERT_LT(score, -5e4f);
    const auto verdict_with = [&](float got, double rtol) {
        MemoryRecording recording = poked(run, Stage::s, some_tile, 1, 1, got);
        JudgeOptions options = one_thread();
        options.compare.rtol = rtol;
        return judge(with_stages(recording, {Stage::s}), options).verdict;
    };
    EXPECT_EQ(verdict_with(score * 1.005f, 1e-2), Verdict::match);
    EXPECT_EQ(verdict_with(score * 0.995f, 1e-2), Verdict::match);
    EXPECT_EQ(verdict_with(score * 1.05f, 1e-2), Verdict::diverged);
    EXPECT_EQ(verdict_with(score * 0.95f, 1e-2), Verdict::diverged);
    EXPECT_EQ(verdict_with(-score, 1e-2), Verdict::diverged);
    poke(run, Stage::s, some_tile, 1, 1, score * 1.05f);
    EXPECT_EQ(judged(run).guilty, Stage::s);
}

TEST(Mistake16, NothingComparedIsNoMatch) {
    const MemoryRecording run = healthy_run();
    EXPECT_THROW(judged(with_stages(run, {})), Error);
    // Tiles that hold nothing, where nothing can be expected.
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = 1;
    problem.seqlen_q = 16;
    MemoryRecording hidden = recorded(make_call(problem, seed));
    MemoryRecording scores = with_stages(hidden, {Stage::s});
    change_stage(scores, Stage::s, [](auto...) { return unwritten; });
    for (std::int64_t head = 0; head < 4; ++head) {
        for (std::int64_t batch = 0; batch < 2; ++batch) {
            const TileId tile{batch, head, 0, 0};
            poke(scores, Stage::s, tile, 15, 0, peek(hidden, Stage::s, tile, 15, 0));
        }
    }
    const Report report = judged(scores);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.stage(Stage::s).tally.compared, 8) << "only what is visible was compared";
}

}  // namespace
}  // namespace tilescope::test
