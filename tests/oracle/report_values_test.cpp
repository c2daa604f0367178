// The numbers of a report: drift, worst elements, bad rows, tolerances given by hand, and that none of them
// depends on the number of threads.

#include <gtest/gtest.h>

#include <cmath>

#include "oracle/formula/estimate.h"
#include "oracle/judge.h"
#include "tests/oracle/exact_attention.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 41;

MemoryRecording run_of(const Problem& problem, const Plant& plant = {}) {
    return recorded(make_call(problem, seed, {}, InputKind::ramped_k), plant);
}

/// Deviations of what was dumped from attention by its definition.
std::vector<Drift> exact_drift(const Recording& recording, const Inputs& inputs) {
    const Problem& p = recording.problem();
    const ExactAttention exact(p, inputs);
    std::vector<Drift> drift(std::size_t(p.kv_tiles()));
    for (std::int64_t i = 0; i < tile_count(p, Stage::m); ++i) {
        const TileId tile = tile_at(p, Stage::m, i);
        Drift& worst = drift[std::size_t(tile.kv_tile)];
        const std::int64_t keys = std::min(p.seqlen_kv, (tile.kv_tile + 1) * p.block_n);
        for (std::int64_t row = 0; row < tile_extent(p, Stage::m, tile).rows; ++row) {
            const auto after = exact.row_after(tile.batch, tile.head, tile.q_block * p.block_m + row, keys);
            const auto got = [&](Stage stage, std::int64_t col) {
                return (long double)peek(recording, stage, tile, row, col);
            };
            worst.m = std::max(worst.m, double(std::abs(got(Stage::m, 0) - after.m)));
            worst.l = std::max(worst.l, double(std::abs(got(Stage::l, 0) - after.l) / after.l));
            long double largest = 0;
            long double deviation = 0;
            for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
                largest = std::max(largest, std::abs(after.acc[std::size_t(d)]));
                deviation = std::max(deviation, std::abs(got(Stage::acc, d) - after.acc[std::size_t(d)]));
            }
            worst.acc = std::max(worst.acc, double(deviation / largest));
        }
    }
    return drift;
}

TEST(ReportValues, DriftIsTheDeviationFromTheDefinition) {
    Problem problem = small_problem();
    problem.batch = 1;
    const Inputs inputs = make_inputs(problem, InputKind::ramped_k, seed);
    for (const Plant plant : {Plant{}, Plant{Mistake::l_not_rescaled, 0, 1, -1, 2}}) {
        const MemoryRecording run = recorded({problem, {}, inputs}, plant);
        const Report report = judged(run);
        const std::vector<Drift> expected = exact_drift(run, inputs);
        ASSERT_EQ(report.drift.size(), expected.size());
        for (std::size_t t = 0; t < expected.size(); ++t) {
            EXPECT_NEAR(report.drift[t].m, expected[t].m, 1e-12 + 1e-6 * expected[t].m) << t;
            EXPECT_NEAR(report.drift[t].l, expected[t].l, 1e-12 + 1e-6 * expected[t].l) << t;
            EXPECT_NEAR(report.drift[t].acc, expected[t].acc, 1e-12 + 1e-6 * expected[t].acc) << t;
        }
        EXPECT_EQ(report.drift[4].l > 0.1, plant.mistake != Mistake::none);
    }
}

TEST(ReportValues, DriftOfMIsInNaturalUnitsWhateverTheDumpHolds) {
    const Problem problem = small_problem();
    Arithmetic arithmetic;
    arithmetic.softmax = Softmax::base_two;
    MemoryRecording run = recorded(make_call(problem, seed, arithmetic));
    const TileId tile{0, 0, 0, 4};
    poke(run, Stage::m, tile, 0, 0, peek(run, Stage::m, tile, 0, 0) + 1);
    EXPECT_NEAR(judged(run).drift[4].m, std::log(2.0), 1e-5);
}

TEST(ReportValues, DriftSurvivesAColumnOfNaN) {
    const Problem problem = small_problem();
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    for (std::int64_t key = 0; key < problem.seqlen_kv; ++key) inputs.v_at(problem, 0, 0, key, 0) = nan;
    const MemoryRecording run = recorded({problem, {}, inputs});
    const Report report = judged(run);
    EXPECT_TRUE(matches(report));
    for (const Drift& drift : report.drift) EXPECT_LT(drift.acc, 1e-5);
}

TEST(ReportValues, DriftOfAValueThatIsNotFiniteIsInfinite) {
    MemoryRecording run = run_of(small_problem());
    poke(run, Stage::l, {0, 0, 0, 3}, 0, 0, nan);
    const Report report = judged(run);
    EXPECT_TRUE(std::isinf(report.drift[3].l));
    EXPECT_LT(report.drift[2].l, 1e-5);
}

TEST(ReportValues, ThereIsNoDriftWithoutAStageThatRuns) {
    const MemoryRecording run = run_of(small_problem());
    EXPECT_TRUE(judged(with_stages(run, {Stage::s, Stage::p, Stage::o})).drift.empty());
    EXPECT_FALSE(judged(with_stages(run, {Stage::l})).drift.empty());
}

TEST(ReportValues, WorstElementsComeLargestFirstAndThenInOrder) {
    MemoryRecording run = run_of(small_problem());
    const auto off_by = [&](const TileId& tile, std::int64_t row, std::int64_t col, float amount) {
        poke(run, Stage::p, tile, row, col, amount);
    };
    off_by({1, 3, 2, 4}, 7, 7, 5);
    off_by({0, 0, 0, 0}, 0, 0, 3);
    off_by({0, 1, 1, 3}, 2, 1, nan);
    off_by({0, 1, 1, 2}, 9, 4, infinity);
    off_by({1, 0, 0, 1}, 1, 1, 400);
    JudgeOptions options = one_thread();
    options.compare.top = 4;
    const Report report = judge(run, options);
    const auto& worst = report.stage(Stage::p).tally.worst;
    ASSERT_EQ(worst.size(), 4u);
    EXPECT_EQ(worst[0].tile, (TileId{0, 1, 1, 2}))
        << "what is not finite is worst, the earlier KV tile first";
    EXPECT_EQ(worst[1].tile, (TileId{0, 1, 1, 3}));
    for (std::size_t i = 3; i < worst.size(); ++i) EXPECT_GE(worst[i - 1].ratio(), worst[i].ratio());
    EXPECT_EQ(report.stage(Stage::p).tally.outside, 5);
    options.compare.top = 0;
    EXPECT_TRUE(judge(run, options).stage(Stage::p).tally.worst.empty());
}

TEST(ReportValues, BadRowsAreListedOnceEach) {
    MemoryRecording run = run_of(small_problem());
    for (const std::int64_t kv_tile : {0, 1, 4}) {
        for (const std::int64_t row : {3, 5}) poke(run, Stage::s, {1, 2, 1, kv_tile}, row, 1, 1000);
    }
    poke(run, Stage::s, {0, 3, 2, 2}, 0, 0, 1000);
    const Report report = judged(run);
    const std::vector<BadRow> expected = {{0, 3, 32, 1}, {1, 2, 19, 3}, {1, 2, 21, 3}};
    EXPECT_EQ(report.stage(Stage::s).tally.bad_rows, expected);
}

TEST(ReportValues, ReportDoesNotDependOnTheNumberOfThreads) {
    std::vector<Mistake> mistakes = mistakes_of(Direction::forward);
    mistakes.push_back(Mistake::none);
    for (const Mistake mistake : mistakes) {
        const MemoryRecording run = run_of(small_problem(Mask::causal),
                                           {mistake, -1, -1, -1, mistake == Mistake::stale_k_tile ? 1 : 0});
        JudgeOptions options;
        options.threads = 1;
        const Report one = judge(run, options);
        options.threads = 8;
        const Report eight = judge(run, options);
        EXPECT_EQ(to_text(one), to_text(eight));
        EXPECT_EQ(to_json(one), to_json(eight));
    }
}

TEST(ReportValues, ToleranceGivenByHandReplacesTheDerivedOne) {
    MemoryRecording run = run_of(small_problem());
    const TileId tile{0, 0, 0, 0};
    const float healthy = peek(run, Stage::acc, tile, 4, 4);
    poke(run, Stage::acc, tile, 4, 4, healthy + 0.5f);
    // The next tile starts from the changed value.
    const auto guilty = [&](std::optional<double> atol, std::optional<double> rtol) {
        JudgeOptions options = one_thread();
        options.compare.atol = atol;
        options.compare.rtol = rtol;
        return judge(run, options).guilty;
    };
    EXPECT_EQ(guilty({}, {}), Stage::acc);
    EXPECT_EQ(guilty(1.0, {}), std::nullopt);
    EXPECT_EQ(guilty(0.4, {}), Stage::acc);
    EXPECT_EQ(guilty({}, 1.0), std::nullopt);
    EXPECT_EQ(guilty({}, 1e-3), Stage::acc);
    EXPECT_EQ(guilty(0.0, 0.0), Stage::s) << "float32 does not compute s exactly";

    poke(run, Stage::k, {0, 0, 0, 1}, 0, 0, peek(run, Stage::k, {0, 0, 0, 1}, 0, 0) + 1e-3f);
    EXPECT_EQ(guilty(1.0, {}), Stage::k) << "operands are copies: no tolerance is for them";
}

TEST(ReportValues, ObserverSeesEveryCapturedTileOnce) {
    const MemoryRecording run = run_of(small_problem());
    std::array<std::int64_t, stage_count> tiles{};
    JudgeOptions options = one_thread();
    options.observe = [&](Stage stage, const TileId&, const MatrixF& got, const Estimate& expected) {
        ++tiles[std::size_t(stage)];
        EXPECT_EQ(got.size(), expected.value.size());
    };
    judge(run, options);
    for (const StageInfo& info : stages_of(Direction::forward))
        EXPECT_EQ(tiles[std::size_t(info.stage)], tile_count(run.problem(), info.stage)) << info.name;
}

}  // namespace
}  // namespace tilescope::test
