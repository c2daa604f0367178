// The rules of the watch: no honest kernel breaks one, each of them is broken by what it names, and what a
// rule found is in the selection of the second launch.

#include "dump/watch.h"
#include "dump/watch/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"
#include "tests/oracle/unseen_rows.h"
#include "tests/oracle/watched_run.h"
#include "tests/support/error_of.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 5;

std::string text_of(const WatchReport& report) {
    std::string text;
    for (const WatchFinding& finding : report.findings)
        text += std::string(finding.rule->name) + " " + to_string(finding) + "\n";
    return text;
}

const WatchFinding* find(const WatchReport& report, std::string_view rule, Stage stage) {
    const auto is = [&](const WatchFinding& found) {
        return found.rule->name == rule && found.stage == stage;
    };
    const auto found = std::ranges::find_if(report.findings, is);
    return found == report.findings.end() ? nullptr : &*found;
}

class Healthy : public BothPasses {};

TEST_P(Healthy, KernelsBreakNoRule) {
    for (int kind = 0; kind < input_kinds; ++kind) {
        std::int64_t tiles = 0;
        const std::uint64_t calls = is_forward() ? tried_seeds(120) : 20;
        for (std::uint64_t i = 0; i < calls; ++i) {
            const std::uint64_t call_seed = is_forward() ? i : i * input_kinds + std::uint64_t(kind);
            const Call call =
                is_forward() ? random_call(InputKind(kind), i) : random_call(direction(), call_seed);
            SCOPED_TRACE(how_to_repeat(call_seed, call));
            const WatchReport report = watch(statistics_of(recorded(call)));
            EXPECT_EQ(report.findings.size(), 0u) << text_of(report);
            EXPECT_GT(report.tiles, 0);
            tiles += report.tiles;
        }
        EXPECT_GT(tiles, 1000) << to_string(InputKind(kind));
    }
}

/// With tiles that are hidden altogether, rows without keys and a tail.
TEST_P(Healthy, KernelsThatMaskWithNumbersAndCastTheirScoresBreakNoRule) {
    constexpr float numbers[] = {-std::numeric_limits<float>::max(), -1e9f, -6e4f, -1e4f};
    for (int variation = 0; variation < softmaxes * 8; ++variation) {
        Arithmetic arithmetic;
        arithmetic.softmax = Softmax(variation / 8);
        arithmetic.masked_s = numbers[variation % 4];
        arithmetic.kept_s = variation % 8 < 4 ? Dtype::f32 : Dtype::f16;
        arithmetic.skips_hidden_tiles = false;
        // One contracts the score before its mask and cast; the other's m is no number of float32.
        if (arithmetic.softmax == Softmax::natural_contracted) continue;
        if (arithmetic.softmax == Softmax::natural_with_base_two_max && arithmetic.masked_s < -1e38f)
            continue;
        Problem problem = one_entry(Mask::causal, direction());
        problem.window_left = 20;
        if (is_forward()) problem.seqlen_kv = 37;
        const Call call = make_call(problem, seed, arithmetic);
        SCOPED_TRACE(how_to_repeat(seed, call));
        const WatchReport report = watch(statistics_of(recorded(call)));
        EXPECT_EQ(report.findings.size(), 0u) << text_of(report);
        EXPECT_GT(report.tiles, 0);
    }
}

/// Of a KV tile they write a part of the rows, and what these held before is not beside them.
TEST_P(Healthy, KernelsWhoseRowsLeaveOutWhatTheyDoNotSeeBreakNoRule) {
    Problem problem = one_entry(Mask::causal, direction());
    for (int i = 0; i < int(tried_seeds(input_kinds * 12)); ++i) {
        problem.window_left = 1 + 2 * (i / input_kinds);
        const Call call = make_call(problem, seed + std::uint64_t(i), {}, InputKind(i % input_kinds));
        SCOPED_TRACE(how_to_repeat(seed + std::uint64_t(i), call));
        MemoryRecording run = recorded(call);
        EXPECT_GT(leave_out_unseen_rows(run), 0);
        EXPECT_EQ(text_of(watch(statistics_of(run))), "");
        // A bias of -inf hides as the mask does.
        MemoryRecording biased = masked_by_bias(run, call.inputs);
        EXPECT_EQ(text_of(watch(statistics_of(biased))), "");
        // The row on whose diagonal the tile begins sees it.
        const std::int64_t diagonal = problem.block_m + problem.seqlen_kv - problem.seqlen_q;
        const TileId tile{0, 0, 1, diagonal / problem.block_n};
        for (const Stage stage : {Stage::s, Stage::p}) {
            for (const MemoryRecording* of : {&run, &biased}) {
                const MemoryRecording lacks = poked(*of, stage, tile, 0, 0, unwritten);
                const WatchReport report = watch(statistics_of(lacks));
                ASSERT_NE(find(report, "unwritten", stage), nullptr) << text_of(report);
                EXPECT_EQ(find(report, "unwritten", stage)->tile, tile);
            }
        }
    }
}

TILESCOPE_TEST_BOTH_PASSES(Healthy);

TEST(WatchRules, KnowTheScaleOfQ) {
    Units units;
    units.q_scale = 0.1;
    units.q_cast = Dtype::f16;
    EXPECT_EQ(text_of(watch(statistics_of(folded(seed, 0.1, units, false)))), "");
    // The sums are what they are, whatever is said to be in them.
    units.s_scaled = units.m_scaled = false;
    EXPECT_EQ(text_of(watch(statistics_of(folded(seed, 0.1, units, false)))), "");
    EXPECT_NE(find(watch(statistics_of(folded(seed, 0.1, {}, false))), "operand", Stage::q), nullptr);
}

/// Three KV tiles a row, no mask: what is spoiled is nothing that a mask allows.
Problem plain_problem() {
    Problem problem = small_problem(Mask::none);
    problem.batch = 1;
    problem.heads = 2;
    return problem;
}

MemoryRecording plain_run(InputKind kind = InputKind::normal) {
    return recorded(make_call(plain_problem(), seed, {}, kind));
}

/// Changes an element of a healthy run, and breaks a rule there.
struct Spoiled {
    const char* rule;
    Stage stage;
    std::int64_t kv_tile;
    float value;
};

class SpoiledTile : public ::testing::TestWithParam<Spoiled> {};

TEST_P(SpoiledTile, BreaksTheRule) {
    const Spoiled& spoiled = GetParam();
    MemoryRecording run = plain_run();
    ASSERT_EQ(text_of(watch(statistics_of(run))), "");
    const TileId tile = {0, 1, 1, spoiled.kv_tile};
    poke(run, spoiled.stage, tile, 1, 0, spoiled.value);
    const WatchReport report = watch(statistics_of(run));
    const WatchFinding* const finding = find(report, spoiled.rule, spoiled.stage);
    ASSERT_NE(finding, nullptr) << text_of(report);
    EXPECT_EQ(finding->tile, tile);
    for (const WatchFinding& other : report.findings) {
        EXPECT_EQ(std::tuple(other.tile.head, other.tile.q_block), std::tuple(1, 1)) << to_string(other);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, SpoiledTile,
    ::testing::Values(Spoiled{"nan", Stage::s, 1, nan}, Spoiled{"nan", Stage::o, 0, nan},
                      Spoiled{"infinity", Stage::s, 1, -infinity},
                      Spoiled{"infinity", Stage::m, 0, -infinity},
                      Spoiled{"infinity", Stage::lse, 0, infinity}, Spoiled{"operand", Stage::q, 0, 100},
                      Spoiled{"operand", Stage::k, 2, -100}, Spoiled{"operand", Stage::v, 1, 100},
                      Spoiled{"m_above_scores", Stage::m, 0, 1000}, Spoiled{"p_negative", Stage::p, 1, -0.5f},
                      Spoiled{"p_above_one", Stage::p, 1, 1.001f}, Spoiled{"l_negative", Stage::l, 1, -1},
                      Spoiled{"l_above_keys", Stage::l, 1, 1e4f}, Spoiled{"l_below_one", Stage::l, 0, 0.9f},
                      Spoiled{"l_sum", Stage::l, 0, 1e4f}, Spoiled{"acc_outside_v", Stage::acc, 1, -1e5f},
                      Spoiled{"o_outside_v", Stage::o, 0, 50}, Spoiled{"o_not_acc_over_l", Stage::o, 0, 50},
                      Spoiled{"lse_outside", Stage::lse, 0, 1000},
                      Spoiled{"unwritten", Stage::acc, 2, unwritten}),
    [](const auto& each) {
        return std::string(each.param.rule) + "_" + std::string(stage_info(each.param.stage).name);
    });

/// Scales every row of a tile.
void scale(MemoryRecording& recording, Stage stage, const TileId& scaled, float factor, float shift) {
    change_stage(recording, stage, [&](float value, const TileId& tile, auto...) {
        return tile != scaled || is_unwritten(value) ? value : value * factor + shift;
    });
}

TEST(WatchRules, WholeTilesBreak) {
    const TileId tile = {0, 0, 0, 1};
    MemoryRecording falls = plain_run();
    scale(falls, Stage::m, tile, 1, -100);
    EXPECT_NE(find(watch(statistics_of(falls)), "m_falls", Stage::m), nullptr);
    EXPECT_NE(find(watch(statistics_of(falls)), "m_below_scores", Stage::m), nullptr);

    MemoryRecording no_maximum = plain_run();
    scale(no_maximum, Stage::p, {0, 0, 0, 0}, 0.5f, 0);
    EXPECT_NE(find(watch(statistics_of(no_maximum)), "p_without_maximum", Stage::p), nullptr);

    MemoryRecording missing = plain_run();
    missing.remove_tile(Stage::p, tile);
    const WatchReport report = watch(statistics_of(missing));
    ASSERT_NE(find(report, "missing", Stage::p), nullptr) << text_of(report);
    EXPECT_EQ(find(report, "missing", Stage::p)->tile, tile);
}

TEST(WatchRules, FindMistakes) {
    const struct {
        Mistake mistake;
        const char* rule;
        Stage stage;
    } expected[] = {{Mistake::q_row_zeroed, "operand", Stage::q},
                    {Mistake::stale_k_tile, "operand", Stage::k},
                    {Mistake::swapped_v_tile, "operand", Stage::v},
                    {Mistake::max_of_half_tile, "m_below_scores", Stage::m},
                    {Mistake::o_not_normalised, "o_not_acc_over_l", Stage::o},
                    {Mistake::o_normalised_twice, "o_not_acc_over_l", Stage::o}};
    const Problem problem = plain_problem();
    for (const auto& [mistake, rule, stage] : expected) {
        const MemoryRecording run = recorded(make_call(problem, seed), {.mistake = mistake});
        const WatchReport report = watch(statistics_of(run));
        EXPECT_NE(find(report, rule, stage), nullptr) << to_string(mistake) << "\n" << text_of(report);
    }
}

/// V as it is stored, and what is made of it with and without its descale.
TEST(WatchRules, KnowTheDescaleOfV) {
    Problem problem = plain_problem();
    problem.dtype_v = Dtype::e4m3;
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    inputs.side.descale_v = {problem.heads_kv, 1, problem.seqlen_kv, {}};
    for (std::int64_t head = 0; head < problem.heads_kv; ++head) {
        inputs.side.descale_v.values.push_back(0.03125f * float(head + 1));
    }
    for (const bool acc_dequantised : {false, true}) {
        SCOPED_TRACE(acc_dequantised);
        Arithmetic arithmetic;
        arithmetic.v.dequantises = false;
        arithmetic.acc_dequantised = acc_dequantised;
        MemoryRecording run = recorded({problem, arithmetic, inputs});
        EXPECT_EQ(text_of(watch(statistics_of(run))), "");
        const MemoryRecording twice =
            recorded({problem, arithmetic, inputs}, {.mistake = Mistake::o_normalised_twice});
        EXPECT_NE(find(watch(statistics_of(twice)), "o_not_acc_over_l", Stage::o), nullptr);
        // Within V as it is stored, and not within V as it is meant.
        poke(run, Stage::o, {0, 0, 0, 0}, 0, 0, 1);
        poke(run, Stage::acc, {0, 0, 0, 0}, 0, 0, 5);
        const WatchReport report = watch(statistics_of(run));
        EXPECT_NE(find(report, "o_outside_v", Stage::o), nullptr) << text_of(report);
        EXPECT_EQ(find(report, "acc_outside_v", Stage::acc) != nullptr, acc_dequantised) << text_of(report);
    }
}

TEST(WatchRules, AreRankedBySeverityThenOrder) {
    MemoryRecording run = plain_run();
    poke(run, Stage::p, {0, 0, 0, 0}, 0, 0, -1);
    poke(run, Stage::acc, {0, 1, 1, 2}, 0, 0, nan);
    poke(run, Stage::s, {0, 1, 2, 1}, 0, 0, nan);
    const WatchReport report = watch(statistics_of(run));
    ASSERT_GE(report.findings.size(), 3u);
    EXPECT_EQ(report.findings[0].stage, Stage::s);
    EXPECT_EQ(report.findings[1].stage, Stage::acc);
    EXPECT_GT(report.findings[2].rule->severity, 0);
}

TEST(WatchRules, LaunchesThatDifferAreFound) {
    MemoryRecording run = plain_run();
    const StatisticsRun first = statistics_of(run);
    WatchReport report = watch(first);
    watch_repeat(first, statistics_of(run), report);
    EXPECT_EQ(report.findings.size(), 0u);
    const float before = peek(run, Stage::p, {0, 1, 0, 2}, 1, 1);
    poke(run, Stage::p, {0, 1, 0, 2}, 1, 1, std::nextafter(before, 1.0f));
    watch_repeat(first, statistics_of(run), report);
    ASSERT_EQ(report.findings.size(), 1u) << text_of(report);
    EXPECT_EQ(report.findings[0].tile, (TileId{0, 1, 0, 2}));
    EXPECT_EQ(report.findings[0].rule->name, "not_repeatable");
}

TEST(WatchRules, NothingWrittenIsAnError) {
    EXPECT_NE(error_of([] { watch(statistics_of(MemoryRecording(plain_problem()))); }).find("no hook wrote"),
              std::string::npos);
}

/// A finding at each of three blocks.
WatchReport three_findings(MemoryRecording& run) {
    poke(run, Stage::s, {0, 1, 1, 1}, 0, 0, nan);
    poke(run, Stage::p, {0, 0, 0, 0}, 0, 0, -1);
    poke(run, Stage::o, {0, 0, 2, 0}, 0, 0, nan);
    return watch(statistics_of(run));
}

TEST(WatchSelection, HoldsTheBlocksUpToWhatBroke) {
    MemoryRecording run = plain_run();
    const WatchReport report = three_findings(run);
    const Problem problem = plain_problem();
    const SuspectSelection all = select_suspects(problem, Units(), report, std::size_t(1) << 30);
    EXPECT_EQ(all.dumped, std::ssize(report.findings));
    EXPECT_EQ(all.left_out, 0);
    for (const WatchFinding& finding : report.findings) {
        for (const StageInfo& info : stages_of(Direction::forward)) {
            EXPECT_TRUE(all.selection.selects(problem, info.stage, finding.tile)) << to_string(finding);
        }
    }
    EXPECT_TRUE(all.selection.selects(problem, Stage::acc, {0, 0, 2, problem.kv_tiles() - 1}))
        << "o needs it";
    EXPECT_FALSE(all.selection.selects(problem, Stage::s, {0, 0, 1, 0}));
    EXPECT_EQ(count_selected(problem, Stage::q, all.selection), 3);
    EXPECT_EQ(parse_selection(to_string(all.selection), "test"), all.selection);
}

TEST(WatchSelection, FitsIntoTheBudget) {
    MemoryRecording run = plain_run();
    const WatchReport report = three_findings(run);
    const Problem problem = plain_problem();
    std::set<std::int64_t> dumped;
    for (std::size_t budget = 1000; budget < 200000; budget += 500) {
        const SuspectSelection chosen = select_suspects(problem, Units(), report, budget);
        EXPECT_EQ(chosen.dumped + chosen.left_out, std::ssize(report.findings));
        EXPECT_EQ(chosen.left_out > 0, chosen.least_bytes > 0);
        dumped.insert(chosen.dumped);
        if (chosen.dumped == 0) continue;
        EXPECT_LE(chosen.bytes, budget);
        const CapturePlan plan(problem, chosen.selection, budget);
        for (const StageInfo& info : stages_of(Direction::forward)) {
            EXPECT_EQ(plan.capacity(info.stage), plan.selected_tiles(info.stage)) << budget;
        }
    }
    EXPECT_GE(dumped.size(), 3u) << "none, some and all";
}

TEST(WatchSelection, TakesAllBlocksOfAGradient) {
    Problem problem = plain_problem();
    problem.direction = Direction::backward;
    WatchReport report;
    report.findings.push_back({&watch_rule("nan"), Stage::dk, {0, 0, 0, 1}, {}});
    const SuspectSelection chosen = select_suspects(problem, Units(), report, std::size_t(1) << 30);
    EXPECT_EQ(chosen.dumped, 1);
    EXPECT_TRUE(chosen.selection.selects(problem, Stage::dk, {0, 0, 0, 1}));
    EXPECT_FALSE(chosen.selection.selects(problem, Stage::dk, {0, 0, 0, 0}));
    EXPECT_EQ(count_selected(problem, Stage::ds, chosen.selection), problem.q_blocks() * problem.dkv_group());
}

}  // namespace
}  // namespace tilescope::test
