// What no cause is to be named for: noise, a stray element, NaN that a replay leaves elsewhere as well, and
// what one recording does not tell apart.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <span>

#include "oracle/report/text.h"
#include "oracle/runs/same_run.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/planted_calls.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 131;

MemoryRecording healthy_run(Mask mask = Mask::none) {
    const Problem problem = small_problem(mask);
    return recorded(make_call(problem, seed));
}

/// Every cause of a replay that the report names, first or later.
std::vector<std::string> named(const Report& report) {
    std::vector<std::string> names;
    for (const std::vector<FoundCause>* told : {&report.diagnosis.causes, &report.diagnosis.then}) {
        for (const FoundCause& cause : *told)
            if (!cause.structural) names.push_back(title_of(cause));
    }
    return names;
}

using Names = std::vector<std::string>;

/// Root of the mean square of what is finite.
double size_of(const Recording& recording, Stage stage) {
    double sum = 0;
    double count = 0;
    visit_stage(recording, stage, [&](float value, auto...) {
        if (!std::isfinite(value)) return;
        sum += double(value) * double(value);
        ++count;
    });
    return std::sqrt(sum / count);
}

/// Adds normal noise of `size` times the stage's own, rounded to the type of o.
void add_noise(MemoryRecording& recording, Stage stage, double size, std::uint64_t noise_seed) {
    std::mt19937_64 random(noise_seed);
    std::normal_distribution<double> normal(0, size * size_of(recording, stage));
    const Dtype dtype = stage == Stage::o ? recording.problem().dtype_o : Dtype::f32;
    change_stage(recording, stage, [&](float value, auto...) {
        return std::isfinite(value) ? rounded(dtype, double(value) + normal(random)) : value;
    });
}

/// A problem of some shape, mask and types.
struct NoisyProblem {
    const char* name;
    std::int64_t seqlen_q;
    std::int64_t seqlen_kv;
    std::int64_t head_dim;
    Mask mask;
    Dtype operand;
    Dtype dtype_o;
};
constexpr NoisyProblem noisy_problems[] = {
    {"bf16", 40, 72, 32, Mask::none, Dtype::bf16, Dtype::bf16},
    {"f16_causal", 72, 72, 16, Mask::causal, Dtype::f16, Dtype::f16},
    {"f32", 24, 100, 16, Mask::none, Dtype::f32, Dtype::f32},
    {"decode", 1, 130, 32, Mask::causal, Dtype::f16, Dtype::f16},
};

Problem problem_of(const NoisyProblem& noisy) {
    Problem p = small_problem(noisy.mask);
    p.batch = p.heads_kv = 1;
    p.heads = 2;
    p.seqlen_q = noisy.seqlen_q;
    p.seqlen_kv = noisy.seqlen_kv;
    p.head_dim = p.head_dim_v = noisy.head_dim;
    p.sm_scale = 1 / std::sqrt(double(noisy.head_dim));
    p.dtype_q = p.dtype_k = p.dtype_v = noisy.operand;
    p.dtype_o = noisy.dtype_o;
    return p;
}

class Noise : public ::testing::TestWithParam<NoisyProblem> {};

/// Sizes from what just shows to what hides everything.
/// Those that are tried: each takes a search that finds nothing.
std::span<const double> noise_sizes() {
    static constexpr double all[] = {0.1, 1e-3, 1e-5};
    return {all, std::size_t(tried_seeds(std::size(all)))};
}

TEST_P(Noise, OnTheOutputHasNoCause) {
    const Problem problem = problem_of(GetParam());
    const MemoryRecording run = recorded(make_call(problem, seed));
    int diverged = 0;
    for (const double size : noise_sizes()) {
        for (std::uint64_t noise_seed = 1; noise_seed <= 2; ++noise_seed) {
            MemoryRecording recording = with_stages(run, {Stage::o, Stage::lse});
            add_noise(recording, Stage::o, size, noise_seed);
            const Report report = diagnosed(recording, Effort::unbounded);
            diverged += report.guilty.has_value();
            EXPECT_EQ(named(report), Names())
                << "size " << size << ", seeds " << seed << " and " << noise_seed;
        }
    }
    EXPECT_GE(diverged, std::min(2, int(noise_sizes().size())));
}

TEST_P(Noise, OnAStageHasNoCause) {
    const Problem problem = problem_of(GetParam());
    const MemoryRecording run = recorded(make_call(problem, seed));
    for (const Stage stage : {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::lse}) {
        int diverged = 0;
        for (const double size : noise_sizes()) {
            MemoryRecording recording = copy_of(run);
            add_noise(recording, stage, size, 7);
            const Report report = diagnosed(recording, Effort::unbounded);
            diverged += report.guilty == stage;
            EXPECT_EQ(named(report), Names())
                << stage_info(stage).name << ", size " << size << ", seed " << seed;
        }
        EXPECT_GE(diverged, std::min(2, int(noise_sizes().size()))) << stage_info(stage).name;
    }
}

INSTANTIATE_TEST_SUITE_P(Problems, Noise, ::testing::ValuesIn(noisy_problems),
                         [](const auto& param) { return std::string(param.param.name); });

/// Computed from its inputs, l may be so far off that o is right; that does not show that it is.
TEST(FalseCauses, AStageThatWideBudgetsLeaveOpenIsUnexplained) {
    MemoryRecording recording = recorded(make_call(problem_of(noisy_problems[0]), seed));
    add_noise(recording, Stage::l, 1e-3, 7);
    const Report report = diagnosed(recording);
    const auto of_o = std::ranges::find(report.diagnosis.answers, Stage::o, &StageAnswer::stage);
    ASSERT_NE(of_o, report.diagnosis.answers.end());
    EXPECT_EQ(of_o->kind, AnswerKind::unexplained);
    EXPECT_EQ(text_of(*of_o),
              "unexplained: right with l computed in place of what was dumped, but within wide budgets");
}

TEST(FalseCauses, RowsThatNobodyStoredAreAPlace) {
    const Problem problem = small_problem();
    const MemoryRecording run = recorded(make_call(problem, seed, {}, InputKind::ramped_k));
    for (const std::vector<Stage>& recorded :
         {std::vector{Stage::o}, std::vector{Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o}}) {
        MemoryRecording recording = with_stages(run, recorded);
        change_stage(recording, recorded[0], [](float value, const TileId&, std::int64_t row, std::int64_t) {
            return row >= 4 && row < 7 ? unwritten : value;
        });
        const Report report = diagnosed(recording);
        EXPECT_EQ(named(report), Names{recorded[0] == Stage::o ? "rows_uncovered (rows 4-6, left unwritten)"
                                                               : "never_written"});
        EXPECT_EQ(report.diagnosis.places, Names{"no thread wrote anything in rows 4-6 of the wrong tiles"});
        EXPECT_NE(causes_text(report).find("  no thread wrote anything in rows 4-6"), std::string::npos);
    }
}

TEST(FalseCauses, NaNInEveryElementTellsNothing) {
    for (const Stage stage : {Stage::p, Stage::l, Stage::acc, Stage::o}) {
        MemoryRecording recording = with_stages(healthy_run(), {stage});
        change_stage(recording, stage, [](auto...) { return nan; });
        const Report report = diagnosed(recording);
        EXPECT_EQ(report.guilty, stage);
        EXPECT_EQ(named(report), Names()) << stage_info(stage).name;
    }
}

/// Where the last tile is hidden, sums that start anew in it leave 0, and so do a V that is never loaded and an output that
/// nobody stores.
TEST(FalseCauses, AnOutputOfZerosTellsNothing) {
    Call call = make_call(small_problem(), seed);
    const Problem& p = call.problem;
    call.inputs.bias = {1, 1, 1, p.seqlen_kv, std::vector<float>(std::size_t(p.seqlen_kv), 0)};
    const std::int64_t last = (p.kv_tiles() - 1) * p.block_n;
    std::fill(call.inputs.bias.values.begin() + last, call.inputs.bias.values.end(), -1e9F);
    call.arithmetic.dumps_unbiased_s = false;
    MemoryRecording recording = with_stages(recorded(call), {Stage::o});
    EXPECT_EQ(judged(recording).verdict, Verdict::match);
    change_stage(recording, Stage::o, [](auto...) { return 0.0F; });
    EXPECT_EQ(named(diagnosed(recording)), Names());
}

/// In the splits that a row does not see, which weigh nothing and spoil the sums.
TEST(FalseCauses, NaNThatARuleOfThePlacesMakesIsNamed) {
    Problem problem = small_problem(Mask::causal);
    problem.seqlen_q = problem.seqlen_kv = 48;
    problem.kv_tiles_per_split = 1;
    MemoryRecording run = recorded(make_call(problem, seed));
    MemoryRecording recording = with_stages(run, {Stage::o});
    for (const TileId& tile : {TileId{0, 0, 0, 0}, {0, 0, 1, 0}}) {
        for (std::int64_t row = 0; row < 16; ++row)
            for (std::int64_t col = 0; col < 16; ++col) poke(recording, Stage::o, tile, row, col, nan);
    }
    for (std::int64_t head = 1; head < 8; ++head) {
        for (std::int64_t block = 0; block < 2; ++block)
            recording.set_tile(Stage::o, {head / 4, head % 4, block, 0}, std::vector<float>(256, nan));
    }
    EXPECT_EQ(named(diagnosed(recording)), Names{"inf_minus_inf (p exp(s - m))"});
}

TEST(FalseCauses, OneElementIsAPlace) {
    const MemoryRecording run = healthy_run(Mask::causal);
    const TileId tile{1, 2, 1, 3};
    for (const Stage stage : {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse}) {
        const bool is_output = stage >= Stage::o;
        const TileId here = is_output ? TileId{1, 2, 1, 0} : tile;
        for (const float value : {nan, infinity, 0.37f}) {
            MemoryRecording recording = copy_of(run);
            if (peek(recording, stage, here, 3, 0) == value) continue;
            poke(recording, stage, here, 3, 0, value);
            const Report report = diagnosed(recording);
            ASSERT_EQ(report.guilty, stage) << value;
            EXPECT_EQ(named(report), Names()) << stage_info(stage).name << " = " << value;
            EXPECT_TRUE(report.diagnosis.causes.empty()) << stage_info(stage).name << " = " << value;
            ASSERT_EQ(report.diagnosis.places.size(), 1u);
            const char* kind = std::isnan(value)   ? "one NaN at batch 1, head 2, row 19"
                               : std::isinf(value) ? "one infinity at batch 1, head 2, row 19"
                                                   : "one wrong number at batch 1, head 2, row 19";
            EXPECT_TRUE(report.diagnosis.places[0].starts_with(kind)) << report.diagnosis.places[0];
            EXPECT_NE(causes_text(report).find(kind), std::string::npos);
            EXPECT_EQ(nlohmann::json::parse(to_json(report))["places"][0], report.diagnosis.places[0]);
        }
    }
}

TEST(FalseCauses, TwoElementsAreTwoPlaces) {
    MemoryRecording recording = copy_of(healthy_run());
    poke(recording, Stage::acc, {0, 1, 1, 4}, 3, 4, nan);
    poke(recording, Stage::acc, {1, 3, 0, 4}, 8, 15, -7.5f);
    const Report report = diagnosed(recording);
    EXPECT_EQ(named(report), Names());
    EXPECT_EQ(report.diagnosis.places.size(), 2u);
}

/// A declaration needs no more than one element, and is told as what it is.
TEST(FalseCauses, OneElementIsEnoughForADeclaration) {
    Problem problem = small_problem();
    problem.batch = problem.heads = problem.heads_kv = problem.seqlen_q = 1;
    MemoryRecording recording = copy_of(recorded(make_call(problem, seed)));
    change_stage(recording, Stage::lse, [](float value, auto...) { return value * 1.44269504f; });
    const Report report = diagnosed(recording);
    EXPECT_EQ(named(report).at(0), "lse_in_other_base (base 2 where e is declared)");
    EXPECT_NE(causes_text(report).find("\n  declare log_base of /outputs/lse where it is meant"),
              std::string::npos)
        << causes_text(report);
}

void expect_no_name_twice(const Diagnosis& diagnosis, std::string_view what) {
    std::set<std::string_view> names;
    for (const std::vector<FoundCause>* told : {&diagnosis.causes, &diagnosis.then}) {
        for (const FoundCause& cause : *told)
            EXPECT_TRUE(names.insert(cause.name).second) << cause.name << " twice for " << what;
    }
}

/// From the outputs alone a cause may explain them in several stages.
TEST(FalseCauses, NoCauseIsNamedTwice) {
    for (const Mistake mistake :
         {Mistake::scaled_twice, Mistake::sink_twice_at_start, Mistake::descale_v_twice_in_acc}) {
        const Call call = planted_call(mistake_info(mistake), planted_inputs()[0], planted_shapes()[0], seed);
        const MemoryRecording run = recorded(call, {mistake});
        expect_no_name_twice(diagnosed(with_stages(run, {Stage::o})).diagnosis, to_string(mistake));
    }
    Problem problem = small_problem();
    problem.batch = problem.heads = problem.heads_kv = 1;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o = Dtype::f32;
    const Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    Arithmetic arithmetic;
    arithmetic.score_sum = arithmetic.pv_sum = Sum::tf32_rounded;
    const MemoryRecording run = recorded({problem, arithmetic, inputs});
    Units units = run.units();
    units.s_accumulation = units.acc_accumulation = Accumulation::fma_f32;
    const MemoryRecording declared = declared_as(run, problem, units, inputs);
    const Report report = diagnosed(with_stages(declared, {Stage::o}));
    EXPECT_EQ(report.guilty, Stage::o);
    expect_no_name_twice(report.diagnosis, "sums of tf32");
}

/// The same mistake in several heads is one, with one index.
TEST(FalseCauses, OneMistakeInSeveralHeadsIsOne) {
    const MistakeInfo& mistake = mistake_info(Mistake::descale_v_of_other_head_in_acc);
    const Call call = planted_call(mistake, planted_inputs()[0], planted_shapes()[0], seed);
    const MemoryRecording run = recorded(call, {mistake.mistake});
    const Report report = diagnosed(run);
    const Names names = named(report);
    ASSERT_EQ(names.size(), 1u);
    EXPECT_TRUE(names[0].starts_with("descale_v_of_other_head (")) << names[0];
    EXPECT_NE(names[0].find("descale_v[b, (h / group + 1) % (heads / group)]"), std::string::npos)
        << names[0];
    EXPECT_EQ(report.diagnosis.causes[0].explained_after, 1);
}

/// Writes that changed what was written, of one tile.
void write_again(MemoryRecording& recording, Stage stage, const TileId& tile, std::int64_t writes) {
    CaptureSummary capture = recording.capture();
    capture.stages[std::size_t(stage)].conflicts.push_back({tile, writes});
    recording.set_capture(capture);
}

TEST(FalseCauses, WhatIsWrittenAgainAndWrongIsARace) {
    MemoryRecording run = healthy_run();
    std::mt19937_64 random(seed);
    for (std::int64_t row = 0; row < 16; ++row) {
        for (std::int64_t col = 0; col < 16; ++col)
            poke(run, Stage::p, {1, 2, 1, 2}, row, col, float(random() % 1000) / 1000);
    }
    write_again(run, Stage::p, {1, 2, 1, 2}, 500);
    const Report report = diagnosed(run);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(title_of(report.diagnosis.causes[0]), "racing (writes 500)");
    EXPECT_EQ(report.diagnosis.causes[0].rank, 1);
    EXPECT_EQ(named(report), Names());
}

TEST(FalseCauses, ARaceIsToldBesideACause) {
    const Problem problem = small_problem();
    MemoryRecording run =
        recorded(make_call(problem, seed, {}, InputKind::ramped_k), {Mistake::l_not_rescaled});
    write_again(run, Stage::l, {1, 2, 1, 2}, 16);
    const Report report = diagnosed(run);
    EXPECT_EQ(named(report), Names{"l_not_rescaled (l l + sum(j: p))"});
    EXPECT_NE(causes_text(report).find("besides: racing (writes 16) in l"), std::string::npos)
        << causes_text(report);
}

TEST(FalseCauses, StaleTilesMayBeARace) {
    const Problem problem = small_problem();
    const MemoryRecording run = recorded(make_call(problem, seed), {Mistake::stale_k_tile});
    const Report report = diagnosed(run);
    ASSERT_EQ(report.diagnosis.causes.at(0).name, "other_kv_tile");
    EXPECT_TRUE(report.diagnosis.causes[0].race_alike);
    EXPECT_NE(
        causes_text(report).find("  a race looks the same in one recording: compare two of the same run "
                                 "(tile-diff --against B A --same-run, or tile-run repeat --runs N)\n"),
        std::string::npos);
    const auto json = nlohmann::json::parse(to_json(report))["causes"][0];
    EXPECT_EQ(json["race_looks_the_same"], true);
    EXPECT_EQ(json["to_tell_a_race"], how_to_tell_a_race);
    const MemoryRecording other =
        recorded(make_call(problem, seed, {}, InputKind::ramped_k), {Mistake::l_not_rescaled});
    EXPECT_EQ(causes_text(diagnosed(other)).find("a race"), std::string::npos);
    EXPECT_TRUE(nlohmann::json::parse(to_json(diagnosed(other)))["causes"][0]["to_tell_a_race"].is_null());
}

/// Infinite scores that are replaced show no number of a narrow type.
TEST(FalseCauses, AGuardIsNoNarrowType) {
    const Problem problem = small_problem();
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    inputs.q_at(problem, 1, 2, 19, 0) = infinity;
    MemoryRecording run = recorded({problem, {}, inputs});
    change_stage(run, Stage::s,
                 [](float value, auto...) { return std::isfinite(value) ? value : -infinity; });
    const Report report = diagnosed(with_stages(run, {Stage::q, Stage::k, Stage::s}));
    ASSERT_EQ(report.guilty, Stage::s);
    for (const FoundCause& cause : report.diagnosis.causes) EXPECT_NE(cause.name, "half_scores");
}

/// Narrow sums are told by the numbers that they leave, not by how far they may be off.
TEST(FalseCauses, NarrowSumsAreReadAndNoiseOfTheirSizeIsNot) {
    Problem problem = small_problem();
    problem.dtype_q = problem.dtype_k = problem.dtype_v = Dtype::f32;
    const Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    for (const Sum sum : {Sum::tf32_rounded, Sum::tf32_cut}) {
        Arithmetic arithmetic;
        arithmetic.score_sum = sum;
        const MemoryRecording run = recorded({problem, arithmetic, inputs});
        Units units = run.units();
        units.s_accumulation = Accumulation::fma_f32;
        const Report report = diagnosed(declared_as(run, problem, units, inputs));
        ASSERT_FALSE(report.diagnosis.causes.empty());
        EXPECT_EQ(report.diagnosis.causes[0].name, "narrow_sum");
        EXPECT_TRUE(report.diagnosis.causes[0].legal);
    }
    MemoryRecording noisy = copy_of(recorded({problem, {}, inputs}));
    add_noise(noisy, Stage::s, 1e-4, seed);
    EXPECT_EQ(named(diagnosed(noisy)), Names());
}

/// Tiles of acc are narrower here than those of s.
TEST(FalseCauses, SumsOfPVAreNotReadAsScores) {
    Problem problem = small_problem();
    problem.dtype_q = problem.dtype_k = problem.dtype_v = Dtype::e4m3;
    problem.head_dim_v = problem.block_n / 2;
    MemoryRecording run = recorded({problem, {}, make_inputs(problem, InputKind::normal, seed)});
    change_stage(run, Stage::acc, [](float value, auto...) { return 1.5F * value; });
    const Report report = diagnosed(run);
    ASSERT_EQ(report.guilty, Stage::acc);
    for (const FoundCause& cause : report.diagnosis.causes) EXPECT_NE(cause.name, "narrow_sum");
}

TEST(SameRun, DoesNotTakeWhatMemoryHeldForARace) {
    const MemoryRecording run = healthy_run();
    MemoryRecording other = poked(run, Stage::p, {1, 2, 1, 3}, 7, 4, 0.123f);
    SameRun runs = compare_same_run(run, other);
    const nlohmann::json causes = nlohmann::json::parse(to_json(runs))["causes"];
    EXPECT_EQ(causes[0]["name"], "racing");
    EXPECT_EQ(causes[1]["name"], "read_before_written");
    EXPECT_EQ(causes[1]["rank"], 1);
    EXPECT_NE(to_text(runs).find("cause: racing in p, or read_before_written: "), std::string::npos);
    EXPECT_NE(to_text(runs).find("to tell them apart: tile-run poison"), std::string::npos);
    EXPECT_EQ(to_text(runs).find("memory was filled"), std::string::npos);
    Provenance poisoned = other.provenance();
    poisoned.poison = "0x3c003c00";
    other.set_provenance(poisoned);
    EXPECT_NE(to_text(compare_same_run(run, other)).find("memory was filled otherwise"), std::string::npos);
    poisoned.poison.clear();
    // As tile-run says it now, and as older recordings have it.
    for (const char* command : {"tile-run poison --kernel scalar", "tile-run --kernel scalar --poison"}) {
        poisoned.command = command;
        other.set_provenance(poisoned);
        EXPECT_NE(to_text(compare_same_run(run, other)).find("memory was filled otherwise"),
                  std::string::npos)
            << command;
    }
}

}  // namespace
}  // namespace tilescope::test
