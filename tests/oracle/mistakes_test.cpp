// The mistakes that comparison tools make, one test each. Two of the sixteen are not the oracle's to make:
// that a hook changes the kernel (9) is tested on the PTX and the outputs of the kernels, and that printing
// or a ring loses values (10) on the sink and the file, whose bits are compared; here 10 is about the report
// alone. A file that cannot be opened after the run was killed (14) is tested on the file; here it is what
// such a run is judged as.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "dump/schema/error.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 61;
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr TileId some_tile{1, 2, 1, 2};
constexpr TileId last_tile{1, 2, 1, 4};

KernelRun healthy_run(Mask mask = Mask::none) {
    const Problem problem = small_problem(mask);
    return run_kernel(problem, {}, make_inputs(problem, InputKind::ramped_k, seed));
}

/// Overwrites every element of a stage.
void fill_stage(MemoryRecording& recording, Stage stage, float value) {
    const Problem& p = recording.problem();
    for (std::int64_t i = 0; i < tile_count(p, stage); ++i) {
        recording.set_tile(stage, tile_at(p, stage, i),
                           std::vector<float>(std::size_t(tile_shape(p, stage).elements()), value));
    }
}

TEST(Mistake01, NaNPassesNoComparison) {
    for (const StageInfo& info : stages_of(Direction::forward)) {
        KernelRun run = healthy_run();
        poke(run.recording, info.stage, last_tile, 1, 0, nan);
        EXPECT_EQ(judge(run.recording, one_thread()).guilty, info.stage);
        JudgeOptions loose = one_thread();
        loose.compare.atol = loose.compare.rtol = 1e30;
        EXPECT_EQ(judge(run.recording, loose).guilty, info.stage) << "under any tolerance";
    }
}

TEST(Mistake01, NaNIsNotLostInAMaximum) {
    KernelRun run = healthy_run();
    poke(run.recording, Stage::acc, last_tile, 1, 0, nan);
    poke(run.recording, Stage::acc, last_tile, 1, 1, 1000);
    const Report report = judge(run.recording, one_thread());
    EXPECT_EQ(report.stage(Stage::acc).tally.nan, 1);
    EXPECT_GT(report.stage(Stage::acc).tally.max_abs, 900);
    EXPECT_TRUE(std::isnan(report.stage(Stage::acc).tally.worst[0].got));
}

TEST(Mistake02, MatchingInfinitiesOfTheMaskAreAMatch) {
    const KernelRun run = healthy_run(Mask::causal);
    ASSERT_TRUE(std::isinf(peek(run.recording, Stage::s, {0, 0, 0, 2}, 0, 15)));
    const Report report = judge(run.recording, one_thread());
    EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
    EXPECT_EQ(report.stage(Stage::s).tally.infinite, 0);
}

TEST(Mistake03, BrokenCornerIsFoundThoughTheWholeLooksAlike) {
    Problem problem = small_problem();
    problem.seqlen_q = problem.seqlen_kv = 128;
    problem.batch = 1;
    problem.heads = problem.heads_kv = 1;
    problem.dtype_o = Dtype::f32;
    KernelRun run = run_kernel(problem, {}, make_inputs(problem, InputKind::ramped_k, seed));
    // 32 of 2048 outputs off by 1 %: cosine and relative L2 over all of them stay below any usual threshold.
    double dot = 0;
    double before = 0;
    double after = 0;
    double difference = 0;
    for (std::int64_t row = 0; row < 128; ++row) {
        for (std::int64_t col = 0; col < 16; ++col) {
            const TileId tile{0, 0, row / 16, 0};
            const float value = peek(run.recording, Stage::o, tile, row % 16, col);
            const float got = row >= 126 ? value * 1.005f : value;
            poke(run.recording, Stage::o, tile, row % 16, col, got);
            dot += double(value) * double(got);
            before += double(value) * double(value);
            after += double(got) * double(got);
            difference += std::pow(double(got) - double(value), 2);
        }
    }
    ASSERT_GT(dot / std::sqrt(before * after), 0.999999);
    ASSERT_LT(std::sqrt(difference / before), 1e-3);
    const Report report = judge(run.recording, one_thread());
    ASSERT_EQ(report.guilty, Stage::o);
    EXPECT_EQ(report.stage(Stage::o).tally.outside, 32);
    EXPECT_EQ(report.first_divergence->row, 126);
}

TEST(Mistake04, ConstantOutputPassesNoDerivedTolerance) {
    for (const StageInfo& info : stages_of(Direction::forward)) {
        const KernelRun run = healthy_run();
        double sum = 0;
        std::int64_t count = 0;
        JudgeOptions options = one_thread();
        options.observe = [&](Stage stage, const TileId&, const MatrixF&, const Estimate& expected) {
            if (stage != info.stage) return;
            sum += expected.value.sum();
            count += expected.value.size();
        };
        judge(run.recording, options);
        for (const double constant : {0.0, sum / double(count)}) {
            MemoryRecording recording = copy_of(run.recording);
            fill_stage(recording, info.stage, float(constant));
            EXPECT_EQ(judge(recording, one_thread()).guilty, info.stage) << info.name << " = " << constant;
            EXPECT_EQ(judge(with_stages(recording, {info.stage}), one_thread()).guilty, info.stage)
                << info.name << " alone";
        }
    }
}

TEST(Mistake04, ToleranceThatAConstantPassesIsMentioned) {
    const KernelRun run = healthy_run();
    EXPECT_TRUE(judge(run.recording, one_thread()).warnings.empty());
    // Half of the way from the least to the greatest logarithm of a sum.
    const MemoryRecording logarithms = with_stages(run.recording, {Stage::lse});
    const auto [least, most] = range_of(logarithms, Stage::lse);
    JudgeOptions loose = one_thread();
    loose.compare.atol = 0.51 * (most - least);
    const Report report = judge(logarithms, loose);
    EXPECT_EQ(report.verdict, Verdict::match);
    ASSERT_EQ(report.warnings.size(), 1u);
    EXPECT_NE(report.warnings[0].find("the whole of lse"), std::string::npos) << report.warnings[0];
    loose.compare.atol = 0.01;
    EXPECT_TRUE(judge(run.recording, loose).warnings.empty());
}

/// A tolerance that reaches as far as any kernel could come compares nothing.
TEST(Mistake04, ToleranceThatEverythingPassesIsNoMatch) {
    const KernelRun run = healthy_run();
    JudgeOptions loose = one_thread();
    loose.compare.atol = 1e3;
    EXPECT_THROW(judge(run.recording, loose), NoVerdict);
    const Report report = report_of(run.recording, loose);
    EXPECT_EQ(report.stage(Stage::o).tally.compared, 0);
    EXPECT_GT(report.stage(Stage::o).tally.not_judged, 0);
    EXPECT_NE(report.unjudged.find("no element of o could be judged"), std::string::npos) << report.unjudged;
}

/// The tolerance is narrower than what the kernel could have stored, and a constant passes.
TEST(Mistake04, ConstantInPlaceOfAnOutputIsNoMatch) {
    const KernelRun run = healthy_run();
    MemoryRecording recording = with_stages(run.recording, {Stage::lse});
    const Problem& p = recording.problem();
    const auto [least, most] = range_of(recording, Stage::lse);
    for (std::int64_t i = 0; i < tile_count(p, Stage::lse); ++i) {
        const TileId tile = tile_at(p, Stage::lse, i);
        for (std::int64_t row = 0; row < tile_extent(p, Stage::lse, tile).rows; ++row)
            poke(recording, Stage::lse, tile, row, 0, 0.5f * (least + most));
    }
    EXPECT_EQ(judge(recording, one_thread()).verdict, Verdict::diverged);
    JudgeOptions loose = one_thread();
    loose.compare.atol = 0.51 * (most - least);
    EXPECT_NE(report_of(recording, loose).unjudged.find("everywhere, although"), std::string::npos);
}

TEST(Mistake05, OneUlpFailsNoStageThatRounds) {
    const KernelRun run = healthy_run();
    for (const Stage stage : {Stage::s, Stage::p, Stage::l, Stage::acc, Stage::lse}) {
        for (const float towards : {-1e30f, 1e30f}) {
            MemoryRecording recording = copy_of(run.recording);
            const float value = peek(recording, stage, last_tile, 3, 0);
            poke(recording, stage, last_tile, 3, 0, std::nextafter(value, towards));
            const Report report = judge(with_stages(recording, {stage}), one_thread());
            EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
        }
    }
}

TEST(Mistake06, ReversedOrderIsJudgedInItsOwnOrder) {
    const Problem problem = small_problem(Mask::causal);
    Arithmetic arithmetic;
    arithmetic.kv_order = KvOrder::reverse;
    const KernelRun run = run_kernel(problem, arithmetic, make_inputs(problem, InputKind::ramped_k, seed));
    const Report report = judge(run.recording, one_thread());
    EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
    for (const StageInfo& info : stages_of(Direction::forward))
        EXPECT_EQ(report.stage(info.stage).tally.inherited, 0);
}

TEST(Mistake07, RowsThatSeeNothingAreNoNaN) {
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = 10;
    const KernelRun run = run_kernel(problem, {}, make_inputs(problem, InputKind::normal, seed));
    const Report report = judge(run.recording, one_thread());
    EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
    EXPECT_EQ(report.stage(Stage::o).tally.compared, 2 * 4 * 40 * 16) << "these rows are compared as well";
    KernelRun wrong = run_kernel(problem, {}, make_inputs(problem, InputKind::normal, seed));
    for (std::int64_t col = 0; col < 16; ++col) poke(wrong.recording, Stage::o, {0, 0, 0, 0}, 0, col, nan);
    EXPECT_EQ(judge(wrong.recording, one_thread()).guilty, Stage::o);
}

TEST(Mistake08, TensorsThatWereMixedUpAreBlamedOnTheirStage) {
    const KernelRun run = healthy_run();
    for (const StageInfo& info : stages_of(Direction::forward)) {
        MemoryRecording recording = copy_of(run.recording);
        // The tile of another head under this one's name.
        std::vector<float> other(std::size_t(tile_shape(run.recording.problem(), info.stage).elements()));
        ASSERT_TRUE(run.recording.read_tile(info.stage, {1, 0, 1, 4}, other));
        recording.set_tile(info.stage, last_tile, other);
        const Report report = judge(recording, one_thread());
        ASSERT_EQ(report.guilty, info.stage);
        EXPECT_EQ(report.first_divergence->tile.head, 2);
        EXPECT_EQ(report.first_divergence->tile.q_block, 1);
    }
}

TEST(Mistake10, ReportPrintsValuesThatCanBeReadBack) {
    KernelRun run = healthy_run();
    const float odd = 1.00000012f;
    poke(run.recording, Stage::p, last_tile, 1, 0, odd * 3);
    const Report report = judge(run.recording, one_thread());
    EXPECT_NE(to_text(report).find("3.00000048"), std::string::npos);
    const auto json = nlohmann::json::parse(to_json(report));
    EXPECT_EQ(json["first_divergence"]["got"].get<double>(), double(odd * 3));
    EXPECT_EQ(json["first_divergence"]["expected"].get<double>(), report.first_divergence->expected);
    EXPECT_EQ(json["first_divergence"]["tolerance"].get<double>(), report.first_divergence->tolerance);
}

TEST(Mistake11, FiniteSentinelIsNoScore) {
    KernelRun run = healthy_run(Mask::causal);
    const TileId tile{0, 0, 0, 2};
    ASSERT_TRUE(std::isinf(peek(run.recording, Stage::s, tile, 0, 15)));
    poke(run.recording, Stage::s, tile, 0, 15, -1e30f);
    const Report report = judge(run.recording, one_thread());
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
    const KernelRun run = run_kernel(problem, {}, inputs);
    ASSERT_TRUE(std::isnan(peek(run.recording, Stage::o, {0, 0, 0, 0}, 0, 3)));
    const Report report = judge(run.recording, one_thread());
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
    const KernelRun run = healthy_run();
    ASSERT_TRUE(std::isnan(peek(run.recording, Stage::s, {0, 0, 2, 4}, 15, 15)));
    const Report report = judge(run.recording, one_thread());
    EXPECT_EQ(report.verdict, Verdict::match) << verdict_line(report);
    EXPECT_EQ(report.stage(Stage::s).tally.compared, 2 * 4 * 40 * 72);
}

TEST(Mistake14, RunThatWasKilledIsJudgedByWhatItLeft) {
    KernelRun run = healthy_run();
    CaptureSummary capture;
    capture.selection = Selection();
    capture.ended = "killed";
    run.recording.set_capture(capture);
    for (const StageInfo& info : stages_of(Direction::forward))
        run.recording.remove_tile(info.stage, last_tile);
    EXPECT_THROW(judge(run.recording, one_thread()), Error);
    poke(run.recording, Stage::p, some_tile, 0, 0, 3);
    EXPECT_EQ(judge(run.recording, one_thread()).guilty, Stage::p);
}

TEST(Mistake15, ToleranceOfANegativeReferenceIsPositive) {
    const Problem problem = small_problem();
    KernelRun run = run_kernel(problem, {}, make_inputs(problem, InputKind::negative, seed));
    const float score = peek(run.recording, Stage::s, some_tile, 1, 1);
    ASSERT_LT(score, -5e4f);
    const auto verdict_with = [&](float got, double rtol) {
        MemoryRecording recording = copy_of(run.recording);
        poke(recording, Stage::s, some_tile, 1, 1, got);
        JudgeOptions options = one_thread();
        options.compare.rtol = rtol;
        return judge(with_stages(recording, {Stage::s}), options).verdict;
    };
    EXPECT_EQ(verdict_with(score * 1.005f, 1e-2), Verdict::match);
    EXPECT_EQ(verdict_with(score * 0.995f, 1e-2), Verdict::match);
    EXPECT_EQ(verdict_with(score * 1.05f, 1e-2), Verdict::diverged);
    EXPECT_EQ(verdict_with(score * 0.95f, 1e-2), Verdict::diverged);
    EXPECT_EQ(verdict_with(-score, 1e-2), Verdict::diverged);
    poke(run.recording, Stage::s, some_tile, 1, 1, score * 1.05f);
    EXPECT_EQ(judge(run.recording, one_thread()).guilty, Stage::s);
}

TEST(Mistake16, NothingComparedIsNoMatch) {
    const KernelRun run = healthy_run();
    EXPECT_THROW(judge(with_stages(run.recording, {}), one_thread()), Error);
    // Tiles that hold nothing, where nothing can be expected.
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = 1;
    problem.seqlen_q = 16;
    KernelRun hidden = run_kernel(problem, {}, make_inputs(problem, InputKind::normal, seed));
    MemoryRecording scores = with_stages(hidden.recording, {Stage::s});
    fill_stage(scores, Stage::s, std::bit_cast<float>(unwritten_bits));
    for (std::int64_t head = 0; head < 4; ++head) {
        for (std::int64_t batch = 0; batch < 2; ++batch) {
            const TileId tile{batch, head, 0, 0};
            poke(scores, Stage::s, tile, 15, 0, peek(hidden.recording, Stage::s, tile, 15, 0));
        }
    }
    const Report report = judge(scores, one_thread());
    EXPECT_EQ(report.verdict, Verdict::match);
    EXPECT_EQ(report.stage(Stage::s).tally.compared, 8) << "only what is visible was compared";
}

}  // namespace
}  // namespace tilescope::test
