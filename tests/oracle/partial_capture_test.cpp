// What a recording does not hold is computed; what it should hold and does not is a finding.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dump/recording/recording_view.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"
#include "tests/support/error_of.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 12;

MemoryRecording healthy_run(const Problem& problem) {
    return recorded(make_call(problem, seed, {}, InputKind::ramped_k));
}

std::vector<std::vector<Stage>> single_stages_and_pairs(const std::vector<StageInfo>& stages) {
    std::vector<std::vector<Stage>> sets;
    for (std::size_t a = 0; a < stages.size(); ++a) {
        sets.push_back({stages[a].stage});
        for (std::size_t b = a + 1; b < stages.size(); ++b)
            sets.push_back({stages[a].stage, stages[b].stage});
    }
    return sets;
}

std::vector<Stage> outputs_of(Direction direction) {
    if (direction == Direction::forward) return {Stage::o, Stage::lse};
    return {Stage::dq, Stage::dk, Stage::dv};
}

class PartialCapture : public BothPasses {};

TEST_P(PartialCapture, HealthyRunMatchesWhicheverStagesAreThere) {
    for (std::uint64_t arithmetic = 1; arithmetic <= (is_forward() ? 6 : 4); ++arithmetic) {
        const Mask mask = arithmetic % 2 == 0 ? Mask::causal : Mask::none;
        const Problem problem = is_forward() ? small_problem(mask) : one_entry(mask, direction());
        const Call call = make_call(problem, seed, random_arithmetic(problem, arithmetic),
                                    is_forward() ? InputKind::ramped_k : InputKind::normal);
        const MemoryRecording run = recorded(call);
        std::vector<std::vector<Stage>> sets = single_stages_and_pairs(stages());
        sets.push_back(outputs_of(direction()));
        for (const std::vector<Stage>& captured : sets) {
            SCOPED_TRACE(names_of(captured) + describe(call));
            const Report report = judged(with_stages(run, captured));
            EXPECT_TRUE(matches(report));
            for (const StageInfo& info : stages()) {
                const bool there = std::ranges::find(captured, info.stage) != captured.end();
                EXPECT_EQ(report.stage(info.stage).captured, there) << info.name;
                EXPECT_EQ(report.stage(info.stage).tally.compared > 0, there) << info.name;
            }
        }
    }
}

TEST_P(PartialCapture, MistakeIsFoundWithNothingButItsStageOrTheOutputs) {
    for (const Mistake mistake : mistakes_of(direction())) {
        const Call call = call_that_shows(mistake, direction(), seed, is_forward() ? 0 : 7);
        SCOPED_TRACE(std::string(to_string(mistake)) + ": " + describe(call));
        const MemoryRecording run = recorded(call, planted(mistake));
        EXPECT_EQ(judged(with_stages(run, {stage_of(mistake)})).guilty, stage_of(mistake));
        const Report outputs = judged(with_stages(run, outputs_of(direction())));
        // Which maximum it was shows in no output.
        ASSERT_EQ(outputs.guilty.has_value(), stage_of(mistake) != Stage::m);
        EXPECT_TRUE(!outputs.guilty || is_output(*outputs.guilty));
    }
}

TEST_P(PartialCapture, SelectedTileThatIsMissingIsUnwritten) {
    const MemoryRecording run = recorded(make_call(small_problem(Mask::none, direction()), seed));
    const TileId missing{1, 1, 1, 4};
    for (const StageInfo& info : stages()) {
        MemoryRecording recording = copy_of(run);
        recording.set_capture(everything_selected());
        recording.remove_tile(info.stage, missing);
        const Report report = judged(recording);
        ASSERT_EQ(report.guilty, info.stage) << verdict_line(report);
        const Element& first = *report.first_divergence;
        EXPECT_EQ(first.finding, Finding::unwritten);
        EXPECT_EQ(first.tile.q_block, info.per_q_block ? 1 : 0) << info.name;
        EXPECT_TRUE(!info.per_kv_tile || first.tile.kv_tile == 4) << info.name;
        const StageTally& tally = report.stage(info.stage).tally;
        EXPECT_EQ(tally.tiles_missing, 1);
        EXPECT_EQ(tally.unwritten, tile_extent(run.problem(), info.stage, missing).elements());
        EXPECT_EQ(tally.outside, tally.unwritten);
    }
}

TEST_P(PartialCapture, NothingIsMissingWhereNothingWasAskedFor) {
    MemoryRecording recording = recorded(make_call(small_problem(Mask::none, direction()), seed));
    for (const StageInfo& info : stages()) recording.remove_tile(info.stage, {1, 1, 1, 4});
    const Report report = judged(recording);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.stage(Stage::s).tally.tiles_missing, 0);
}

TILESCOPE_TEST_BOTH_PASSES(PartialCapture);

TEST(ForwardCapture, TilesWhosePredecessorIsMissingAreJudgedFromTheInputs) {
    const MemoryRecording run = healthy_run(small_problem());
    const auto odd_tiles = [](Stage stage, const TileId& tile) {
        return !stage_info(stage).per_kv_tile || tile.kv_tile % 2 == 1;
    };
    MemoryRecording half = copy_of(run, odd_tiles);
    CaptureSummary capture;
    capture.selection = parse_selection("kv_tile=1,3", "test");
    half.set_capture(capture);
    const Report healthy = judged(half);
    EXPECT_TRUE(matches(healthy));
    EXPECT_EQ(healthy.stage(Stage::l).tally.tiles, 2 * 4 * 3 * 2);

    const TileId tile{0, 1, 0, 3};
    for (const Stage stage : {Stage::m, Stage::l, Stage::acc}) {
        MemoryRecording wrong = poked(half, stage, tile, 2, 0, peek(half, stage, tile, 2, 0) * 1.01f);
        const Report report = judged(wrong);
        ASSERT_EQ(report.guilty, stage);
        EXPECT_EQ(report.first_divergence->tile, tile);
        EXPECT_EQ(report.first_divergence->row, 2);
    }
}

TEST(ForwardCapture, SelectionOfOneHeadAndQueryBlock) {
    const MemoryRecording run = healthy_run(small_problem());
    MemoryRecording some = copy_of(run, [](Stage, const TileId& tile) {
        return tile.batch == 1 && tile.head == 3 && tile.q_block == 2;
    });
    CaptureSummary capture;
    capture.selection = parse_selection("batch=1:head=3:q_block=2", "test");
    some.set_capture(capture);
    const Report report = judged(some);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.stage(Stage::s).tally.compared, 8 * 72);
    EXPECT_EQ(report.stage(Stage::s).tally.tiles_missing, 0);
}

/// Says which query block it holds, and counts what is read of the inputs.
class OneBlock final : public RecordingView {
 public:
    OneBlock(const Recording& from, const TileId& block) : RecordingView(from), block_(block) {}

    bool may_hold(const TileId& block) const override {
        return block.batch == block_.batch && block.head == block_.head && block.q_block == block_.q_block;
    }
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override {
        rows_read[static_cast<std::size_t>(input)] += count;
        of().read_input(input, batch, head, row, count, out);
    }

    mutable std::array<std::int64_t, input_count> rows_read{};

 private:
    TileId block_;
};

TEST(ForwardCapture, WhatNothingDependsOnIsNotComputed) {
    const Problem problem = small_problem();
    const TileId block{1, 2, 1, 0};
    const MemoryRecording held = copy_of(healthy_run(problem), [&](Stage stage, const TileId& tile) {
        return stage == Stage::o && tile.batch == 1 && tile.head == 2 && tile.q_block == 1;
    });
    const OneBlock recording(held, block);
    EXPECT_EQ(judged(recording).compared(), problem.block_m * problem.head_dim_v);
    EXPECT_EQ(recording.rows_read[std::size_t(Input::q)], problem.block_m);
    EXPECT_EQ(recording.rows_read[std::size_t(Input::k)], problem.seqlen_kv);
}

TEST(ForwardCapture, OneTileOfALongContextReadsNotAllOfIt) {
    Problem problem;
    problem.seqlen_q = problem.block_m = 2;
    problem.seqlen_kv = 1 << 20;
    problem.block_n = 3;
    problem.head_dim = problem.head_dim_v = 8;
    problem.sm_scale = 1;
    problem.dtype_q = problem.dtype_k = Dtype::f32;
    MemoryRecording recording(problem);
    // Small integers, so that s is exact; tiles of three keys cross the parts that inputs are read in.
    const auto k_at = [](std::int64_t key, std::int64_t d) { return float((key + d) % 17 - 8); };
    std::vector<float> k(std::size_t(problem.seqlen_kv * 8));
    for (std::size_t i = 0; i < k.size(); ++i) k[i] = k_at(std::int64_t(i / 8), std::int64_t(i % 8));
    recording.set_input(Input::k, k);
    recording.set_input(Input::v, k);
    recording.set_input(Input::q, std::vector<float>(16, 1));
    const std::int64_t part = (1 << 18) / 8;
    for (const std::int64_t key : {std::int64_t(0), part - 1, part, part + 1, 7 * part + 5}) {
        std::vector<float> s;
        const std::int64_t first = key / 3 * 3;
        for (int row = 0; row < 2; ++row) {
            for (std::int64_t j = first; j < first + 3; ++j) {
                float sum = 0;
                for (int d = 0; d < 8; ++d) sum += k_at(j, d);
                s.push_back(sum);
            }
        }
        recording.set_tile(Stage::s, {0, 0, 0, key / 3}, s);
    }
    const OneBlock counted(recording, {0, 0, 0, 0});
    const Report report = judged(counted);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.compared(), 4 * 6) << "two of the keys share a tile";
    EXPECT_EQ(counted.rows_read[std::size_t(Input::k)], 3 * part);
    EXPECT_EQ(counted.rows_read[std::size_t(Input::v)], 0);
}

TEST(ForwardCapture, WarnsOfPlacesThatTheProblemDoesNotHave) {
    MemoryRecording run = healthy_run(small_problem());
    CaptureSummary capture = everything_selected();
    StageCapture& s = capture.stages[std::size_t(Stage::s)];
    s.elements_out_of_range = 3;
    s.first_out_of_range = OutOfRange{{1, 2, 0, 4}, 8, 0};
    run.set_capture(capture);
    const Report report = judged(run);
    const Problem& p = run.problem();
    ASSERT_EQ(report.warnings.size(), 1u);
    EXPECT_EQ(
        report.warnings[0],
        fmt::format("3 writes of s were outside the problem, one of them at batch 1, head 2, query block 0, "
                    "KV tile 4, row 8, column 0; the problem has {}, {}, {} and {} of them, and tiles of s "
                    "have {} x {}: check the coordinates that the hook is given, and block_m and block_n "
                    "of the problem",
                    p.batch, p.heads, p.q_blocks(), p.kv_tiles(), p.block_m, p.block_n));
}

TEST(ForwardCapture, WarnsOfRowsThatAreABlockOfTheirOwn) {
    MemoryRecording run = healthy_run(small_problem());
    const Problem& p = run.problem();
    for (const std::int64_t beyond : {0, 1}) {
        CaptureSummary capture = everything_selected();
        StageCapture& s = capture.stages[std::size_t(Stage::s)];
        s.elements_out_of_range = 3;
        s.first_out_of_range = OutOfRange{{0, 0, p.q_blocks(), 0}, 0, beyond * p.block_n};
        run.set_capture(capture);
        const Report report = judged(run);
        ASSERT_EQ(report.warnings.size(), 1u);
        EXPECT_EQ(report.warnings[0].find("whether block_m is less than") == std::string::npos, beyond == 1)
            << report.warnings[0];
    }
}

TEST(ForwardCapture, UnwrittenElementsAreCountedAndLocated) {
    const MemoryRecording run = healthy_run(small_problem());
    MemoryRecording recording = poked(run, Stage::p, {0, 1, 0, 2}, 3, 7, unwritten);
    poke(recording, Stage::p, {1, 0, 1, 1}, 5, 2, unwritten);
    const Report report = judged(recording);
    ASSERT_EQ(report.guilty, Stage::p);
    const StageTally& tally = report.stage(Stage::p).tally;
    EXPECT_EQ(tally.unwritten, 2);
    EXPECT_EQ(tally.nan, 0) << "the marker of unwritten elements is not a NaN of the kernel";
    ASSERT_TRUE(tally.first_unwritten);
    EXPECT_EQ(tally.first_unwritten->tile, (TileId{1, 0, 1, 1}));
    EXPECT_EQ(tally.first_unwritten->row, 21);
    EXPECT_EQ(tally.first_unwritten->col, 18);
    EXPECT_EQ(report.stage(Stage::l).tally.outside, 0) << "what follows is computed from the expected value";
}

TEST(ForwardCapture, OutputsOfRowsThatSeeNoKeyMustBeWritten) {
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_kv = problem.seqlen_q - 8;
    problem.causal_alignment = CausalAlignment::bottom_right;
    MemoryRecording run = healthy_run(problem);
    ASSERT_TRUE(matches(run));
    ASSERT_TRUE(std::isinf(peek(run, Stage::lse, {0, 0, 0, 0}, 3, 0)));
    poke(run, Stage::lse, {0, 0, 0, 0}, 3, 0, unwritten);
    const Report report = judged(run);
    EXPECT_EQ(report.guilty, Stage::lse) << verdict_line(report);
    EXPECT_EQ(report.first_divergence->finding, Finding::unwritten);
}

TEST(ForwardCapture, ConflictingWritesDiverge) {
    MemoryRecording run = healthy_run(small_problem());
    CaptureSummary capture;
    capture.stages[std::size_t(Stage::acc)].conflicts = {{{1, 1, 2, 3}, 5}, {{0, 1, 0, 3}, 2}};
    run.set_capture(capture);
    const Report report = judged(run);
    ASSERT_EQ(report.guilty, Stage::acc);
    EXPECT_EQ(report.stage(Stage::acc).tally.conflicting, 7);
    EXPECT_EQ(report.first_divergence->finding, Finding::conflicting);
    EXPECT_EQ(report.first_divergence->tile, (TileId{0, 1, 0, 3}));
}

std::string why_unjudged(const Recording& recording) {
    return error_of([&] { judged(recording); });
}

TEST(ForwardCapture, DroppedTilesCannotBeJudged) {
    MemoryRecording run = healthy_run(small_problem());
    CaptureSummary capture;
    capture.stages[std::size_t(Stage::p)].dropped = {{0, 0, 0, 1}};
    run.set_capture(capture);
    EXPECT_NE(why_unjudged(run).find("dropped"), std::string::npos);
    capture.stages[std::size_t(Stage::p)].dropped.clear();
    capture.stages[std::size_t(Stage::q)].elements_dropped = 3;
    run.set_capture(capture);
    EXPECT_NE(why_unjudged(run).find("dropped"), std::string::npos);
}

TEST(ForwardCapture, RecordingWithoutTilesOrInputsCannotBeJudged) {
    const MemoryRecording run = healthy_run(small_problem());
    EXPECT_NE(why_unjudged(with_stages(run, {})).find("no tile was captured"), std::string::npos);
    EXPECT_NE(why_unjudged(MemoryRecording(small_problem())).find("/inputs"), std::string::npos);
}

/// Descales of two blocks of every operand.
SideInputs block_descales(const Problem& p) {
    SideInputs side;
    side.descale_q = make_descale(p, p.heads, 2, 32, seed);
    side.descale_k = make_descale(p, p.heads_kv, 2, 48, seed);
    side.descale_v = make_descale(p, p.heads_kv, 2, 48, seed);
    return side;
}

TEST(ForwardCapture, DeclarationsThatContradictEachOtherCannotBeJudged) {
    struct Refusal {
        const char* reason;
        void (*declare)(Problem&, Units&, Inputs&);
    };
    const Refusal refusals[] = {
        {"biased but not capped",
         [](Problem& p, Units& u, Inputs& inputs) {
             p.logits_soft_cap = 30;
             inputs.bias = {1, 1, 1, 1, {0.5f}};
             u.s_capped = false;
         }},
        {"m is declared unscaled",
         [](Problem& p, Units& u, Inputs& inputs) {
             inputs.side = block_descales(p);
             u.k_dequantised = u.m_scaled = false;
         }},
        {"biased and unscaled",
         [](Problem& p, Units& u, Inputs& inputs) {
             inputs.side = block_descales(p);
             inputs.bias = {1, 1, 1, 1, {0.5f}};
             u.q_dequantised = u.s_scaled = false;
         }},
        {"acc is declared without descale_v",
         [](Problem& p, Units& u, Inputs& inputs) {
             inputs.side = block_descales(p);
             u.v_dequantised = u.acc_dequantised = false;
         }},
        {"partial sums of lanes",
         [](Problem& p, Units&, Inputs& inputs) {
             p.sink = AttentionSink::first;
             p.l_lanes = 4;
             add_slopes_and_sinks(p, seed, inputs);
         }},
    };
    const Inputs plain = make_inputs(small_problem(), InputKind::ramped_k, seed);
    for (const Refusal& refusal : refusals) {
        Problem problem = small_problem();
        Units units;
        Inputs inputs = plain;
        refusal.declare(problem, units, inputs);
        MemoryRecording recording = declared_as(MemoryRecording(problem), problem, units, inputs);
        recording.set_tile(Stage::m, {}, std::vector<float>(16, 0.0f));
        EXPECT_NE(why_unjudged(recording).find(refusal.reason), std::string::npos) << why_unjudged(recording);
    }
}

TEST(ForwardCapture, RunThatEndedWithAnErrorIsNeverAMatch) {
    MemoryRecording run = healthy_run(small_problem());
    CaptureSummary capture = everything_selected();
    capture.ended = "an illegal memory access was encountered";
    run.set_capture(capture);
    EXPECT_NE(why_unjudged(run).find("illegal memory access"), std::string::npos);

    // What it did not write any more is not held against it; what it wrote wrong is.
    for (std::int64_t q_block = 0; q_block < 3; ++q_block) run.remove_tile(Stage::o, {1, 3, q_block, 0});
    EXPECT_NE(why_unjudged(run).find("illegal memory access"), std::string::npos);
    poke(run, Stage::l, {0, 0, 0, 1}, 0, 0, 100);
    const Report report = judged(run);
    EXPECT_EQ(report.guilty, Stage::l);
    ASSERT_FALSE(report.warnings.empty());
    EXPECT_NE(report.warnings.back().find("illegal memory access"), std::string::npos);
}

TEST(ForwardCapture, InputsThatAreNothingButNaNLeaveNothingToCompare) {
    const Problem problem = small_problem();
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    std::ranges::fill(inputs.q, nan);
    const MemoryRecording run = recorded({problem, {}, inputs});
    EXPECT_NE(why_unjudged(with_stages(run, {Stage::s, Stage::acc})).find("could be compared"),
              std::string::npos);
}

TEST(ForwardCapture, WritesOutsideTheProblemAreMentioned) {
    MemoryRecording run = healthy_run(small_problem());
    CaptureSummary capture;
    capture.stages[std::size_t(Stage::s)].elements_out_of_range = 12;
    run.set_capture(capture);
    const Report report = judged(run);
    ASSERT_EQ(report.warnings.size(), 1u);
    EXPECT_NE(report.warnings[0].find("12 writes of s"), std::string::npos);
}

TEST(BackwardCapture, SomeTilesOfAStageAreEnough) {
    const MemoryRecording run = recorded(make_call(one_entry(Mask::none, Direction::backward), seed));
    const MemoryRecording some = copy_of(run, [](Stage stage, const TileId& tile) {
        return is_output(stage) || (tile.q_block + tile.kv_tile) % 2 == 1;
    });
    EXPECT_TRUE(all_match(judged(some)));
    const TileId tile{0, 1, 0, 2};
    const float wrong = peek(some, Stage::dk, tile, 3, 4) * 1.01f + 0.01f;
    EXPECT_EQ(judged(poked(some, Stage::dk, tile, 3, 4, wrong)).guilty, Stage::dk);
}

/// Where delta was dumped, o is not needed.
TEST(BackwardCapture, DeltaStandsForO) {
    const Call call = make_call(one_entry(Mask::causal, Direction::backward), seed);
    MemoryRecording run = recorded(call);
    run.remove_input(Input::o);
    const Report healthy = judged(run);
    EXPECT_TRUE(matches(healthy));
    EXPECT_EQ(healthy.stage(Stage::delta).tally.compared, 0) << "nothing tells what it should be";
    for (const Stage stage : {Stage::dp, Stage::ds, Stage::dq, Stage::dk, Stage::dv})
        EXPECT_GT(healthy.stage(stage).tally.compared, 0) << stage_info(stage).name;
    for (const Stage stage : {Stage::ds, Stage::dq, Stage::dk})
        EXPECT_TRUE(matches(with_stages(run, {Stage::delta, stage})));

    MemoryRecording wrong = recorded(call, {Mistake::ds_without_delta, 0, 2});
    wrong.remove_input(Input::o);
    const Report report = judged(wrong);
    EXPECT_EQ(report.guilty, Stage::ds) << verdict_line(report);
    EXPECT_GT(report.stage(Stage::dq).tally.inherited, 0);
    EXPECT_THROW(judged(with_stages(run, {Stage::ds, Stage::dq})), Error);
}

}  // namespace
}  // namespace tilescope::test
