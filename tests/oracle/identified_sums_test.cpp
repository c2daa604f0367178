// Sums, products and recurrences that no row of the table of causes lists: what the kernel computed is solved for.
// The wrong stage is computed here, from the dumped stages before it, as the mistake would have it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "oracle/solve/weights.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/known_run.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = known_run_seed;

const std::vector<Stage> of_scores = {Stage::s};
const std::vector<Stage> of_maxima = {Stage::s, Stage::m};
const std::vector<Stage> of_sums = {Stage::m, Stage::p, Stage::l};
const std::vector<Stage> of_exponentials = {Stage::s, Stage::m, Stage::p};
const std::vector<Stage> of_products = {Stage::m, Stage::p, Stage::acc};

TEST(Identified, WeightsOfHeadElements) {
    KnownRun run(of_scores);
    run.recompute(Stage::s, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        return 0.25 * run.product(tile, row, col, [](std::int64_t d) { return 1 + d % 4; });
    });
    EXPECT_EQ(run.found(), "formula: sum(d: q * k[b, h, i / block_m, j, d] * (d % 4 + 1)) * 0.25");
}

TEST(Identified, WeightsOfHeadElementsThatDoNotRepeat) {
    KnownRun run(of_scores);
    run.recompute(Stage::s, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        return 0.25 * run.product(tile, row, col, [](std::int64_t d) { return 1 + d % 12; });
    });
    EXPECT_EQ(run.found(), "formula: sum(d: q * k[b, h, i / block_m, j, d] * (d % 12 + 1)) * 0.25");
}

/// The last KV tile has 8 keys and 8 columns behind them, of which K is 0: three count, as where the mask ends too late.
TEST(Identified, ColumnsBehindTheKeysThatARowSumCounts) {
    KnownRun run(of_sums);
    run.recompute(Stage::l, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        const double more = tile.kv_tile == 4 ? 3 * std::exp(-run.at(Stage::m, tile, row)) : 0;
        return run.at(Stage::l, tile, row) + more;
    });
    EXPECT_EQ(run.found(), "tail_counted: the first 3");
}

TEST(Identified, HeadElementsThatAColumnLeavesOut) {
    KnownRun run(of_scores);
    run.recompute(Stage::s, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        return 0.25 * run.product(tile, row, col, [=](std::int64_t d) { return d >= col % 3; });
    });
    EXPECT_EQ(run.found(),
              "formula: sum(d: q * k[b, h, i / block_m, j, d] where d >= j % block_n % 3 else 0.0) * 0.25");
}

TEST(Identified, FirstNumbersOfScores) {
    KnownRun run(of_scores);
    run.recompute(Stage::s, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        return 0.25 * (double(row % 4) + run.product(tile, row, col, [](std::int64_t) { return 1; }));
    });
    EXPECT_EQ(run.found(), "starts_at: row % 4");
}

TEST(Identified, ScoresThatStartWithThoseOfTheTileBefore) {
    KnownRun run(of_scores);
    run.recompute(Stage::s, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        const double left = tile.kv_tile > 0 ? run.at(Stage::s, KnownRun::before(tile), row, col) : 0;
        return 0.25 * (left + run.product(tile, row, col, [](std::int64_t) { return 1; }));
    });
    EXPECT_EQ(run.found(), "starts_with_what_was_left: the score of the tile before");
}

TEST(Identified, ColumnsThatARowSumCountsSeveralTimes) {
    KnownRun run(of_sums);
    run.recompute(Stage::l, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        double sum =
            tile.kv_tile > 0 ? run.at(Stage::l, KnownRun::before(tile), row) * run.factor(tile, row) : 0;
        for (std::int64_t c = 0; c < 16; ++c)
            sum += (c >= 4 && c < 7 ? 3 : 1) * run.at(Stage::p, tile, row, c);
        return sum;
    });
    EXPECT_EQ(run.found(),
              "formula: l * rescale + sum(j: p * 3.0 where j % block_n >= 4 and j % block_n < 7 else p)");
}

TEST(Identified, ARowSumThatIsRescaledByHalfTheDifference) {
    KnownRun run(of_sums);
    run.recompute(Stage::l, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        double sum = tile.kv_tile > 0
                         ? run.at(Stage::l, KnownRun::before(tile), row) * std::sqrt(run.factor(tile, row))
                         : 0;
        for (std::int64_t c = 0; c < 16; ++c) sum += run.at(Stage::p, tile, row, c);
        return sum;
    });
    EXPECT_EQ(run.found(),
              "formula: l * (exp((m.before - m) * 0.5) where m.before > -inf else 0.0) + sum(j: p)");
}

TEST(Identified, ARowSumThatAddsItsFactor) {
    KnownRun run(of_sums);
    run.recompute(Stage::l, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        const bool first = tile.kv_tile == 0;
        double sum = first ? 0 : run.at(Stage::l, KnownRun::before(tile), row) + run.factor(tile, row);
        for (std::int64_t c = 0; c < 16; ++c) sum += run.at(Stage::p, tile, row, c);
        return sum;
    });
    EXPECT_EQ(run.found(), "formula: l + rescale + sum(j: p)");
}

TEST(Identified, AnAccumulatorWithALimitedFactor) {
    KnownRun run(of_products);
    run.recompute(Stage::acc, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        double sum = tile.kv_tile > 0 ? run.at(Stage::acc, KnownRun::before(tile), row, col) *
                                            std::max(run.factor(tile, row), 0.75)
                                      : 0;
        for (std::int64_t c = 0; c < 16; ++c) sum += run.product_of_v(tile, row, col, c);
        return sum;
    });
    EXPECT_EQ(run.found(), "formula: acc * max(rescale, 0.75) + sum(j: p * v[b, h, i / block_m, j, e])");
}

TEST(Identified, AnAccumulatorWithTheFactorOfAnotherRow) {
    KnownRun run(of_products);
    run.recompute(Stage::acc, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        const std::int64_t from = col % 2 == 1 ? std::min<std::int64_t>(row, 5) : row;
        double sum = tile.kv_tile > 0
                         ? run.at(Stage::acc, KnownRun::before(tile), row, col) * run.factor(tile, from)
                         : 0;
        for (std::int64_t c = 0; c < 16; ++c) sum += run.product_of_v(tile, row, col, c);
        return sum;
    });
    EXPECT_EQ(run.found_where(),
              "formula: acc * rescale[b, h, i / block_m * block_m + 5] + sum(j: p * v[b, h, i / block_m, j, "
              "e]) where "
              "e % 2 == 1 and i % block_m >= 6");
}

TEST(Identified, ARowSumWithTheFactorOfAnotherRow) {
    KnownRun run(of_sums);
    run.recompute(Stage::l, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        const std::int64_t from = row ^ 1;
        double sum =
            tile.kv_tile > 0 ? run.at(Stage::l, KnownRun::before(tile), row) * run.factor(tile, from) : 0;
        for (std::int64_t c = 0; c < 16; ++c) sum += run.at(Stage::p, tile, row, c);
        return sum;
    });
    EXPECT_EQ(run.found(), "formula: l * rescale[b, h, i ^ 1] + sum(j: p)");
}

TEST(Identified, AnAccumulatorThatGoesOnFromTheColumnBeside) {
    KnownRun run(of_products);
    run.recompute(Stage::acc, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        double sum = tile.kv_tile > 0
                         ? run.at(Stage::acc, KnownRun::before(tile), row, col ^ 1) * run.factor(tile, row)
                         : 0;
        for (std::int64_t c = 0; c < 16; ++c) sum += run.product_of_v(tile, row, col, c);
        return sum;
    });
    EXPECT_EQ(run.found(), "formula: acc[b, h, i, e ^ 1] * rescale + sum(j: p * v[b, h, i / block_m, j, e])");
}

double largest(const KnownRun& run, const TileId& tile, std::int64_t row, std::int64_t first) {
    double most = -infinity;
    for (std::int64_t c = first; c < 16; ++c)
        if (run.values.at(Stage::s).contains({tile, row, c}))
            most = std::max(most, run.at(Stage::s, tile, row, c));
    return most;
}

TEST(Identified, AMaximumThatGoesOnFromAnotherRow) {
    KnownRun run(of_maxima);
    run.recompute(Stage::m, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        // The last query block has 8 rows.
        const double before =
            tile.kv_tile > 0 ? run.at(Stage::m, KnownRun::before(tile), row ^ 2) : -infinity;
        return std::max(before, largest(run, tile, row, 0));
    });
    EXPECT_EQ(run.found(), "formula: max(m[b, h, i ^ 2], max(j: s))");
}

TEST(Identified, AMaximumThatGoesOnFromTheRowOfItsTile) {
    KnownRun run(of_maxima);
    run.recompute(Stage::m, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        const double before =
            tile.kv_tile > 0 ? run.at(Stage::m, KnownRun::before(tile), tile.kv_tile) : -infinity;
        return std::max(before, largest(run, tile, row, 0));
    });
    EXPECT_EQ(run.found(), "formula: max(m[b, h, i / block_m * block_m + j / block_n], max(j: s))");
}

/// All lanes subtract the maximum of the tile: it is that of no lane.
TEST(Identified, ProbabilitiesWithTheMaximumOfTheTileAreOfNoLane) {
    KnownRun run(of_exponentials);
    run.recompute(Stage::p, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        return std::exp(run.at(Stage::s, tile, row, col) - largest(run, tile, row, 0));
    });
    EXPECT_EQ(run.found().find("p_of_partial_max"), std::string::npos) << run.found();
}

/// What a stage that diverges by itself follows from.
std::string covers(const KnownRun& run, Stage stage) {
    const Report report = diagnosed(run.recording);
    for (const StageAnswer& answer : report.diagnosis.answers)
        if (answer.stage == stage) return text_of(answer);
    return "nothing";
}

/// Row sums, rescaled from the maximum of the row beside.
void sum_from_maximum_of_row_beside(KnownRun& run) {
    run.recompute(Stage::m, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        const double before =
            tile.kv_tile > 0 ? run.at(Stage::m, KnownRun::before(tile), row ^ 2) : -infinity;
        return std::max(before, largest(run, tile, row, 0));
    });
    run.recompute(Stage::p, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        return std::exp(run.at(Stage::s, tile, row, col) - run.at(Stage::m, tile, row));
    });
    run.recompute(Stage::l, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        double sum = 0;
        if (tile.kv_tile > 0) {
            const double old = run.at(Stage::m, KnownRun::before(tile), row ^ 2);
            sum = run.at(Stage::l, KnownRun::before(tile), row) * std::exp(old - run.at(Stage::m, tile, row));
        }
        for (std::int64_t c = 0; c < 16; ++c) sum += run.at(Stage::p, tile, row, c);
        return sum;
    });
}

TEST(IdentifiedPairs, RowSumsAreRescaledFromTheMaximumThatMWentOnFrom) {
    KnownRun run({Stage::s, Stage::m, Stage::p, Stage::l});
    sum_from_maximum_of_row_beside(run);
    EXPECT_EQ(covers(run, Stage::l), "covered by formula in m, which is made here as well");
}

/// Scores of which every fourth column holds numbers that nothing explains.
TEST(IdentifiedPairs, OneIsNamedAloneIfTheOtherIsNotKnown) {
    KnownRun run(of_scores);
    std::mt19937 random(seed);
    run.recompute(Stage::s, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        if (col % 8 == 3) return double(random() % 1000) / 500;
        return 0.25 * run.product(tile, row, col, [](std::int64_t d) { return d > 0; });
    });
    const Diagnosis found = diagnosed(run.recording).diagnosis;
    ASSERT_FALSE(found.causes.empty());
    EXPECT_EQ(title_of(found.causes[0]),
              "k_slice_missing (s sum(d: q * k[b, h, i / block_m, j, d] where d >= 1 else 0.0) * 0.25)");
    EXPECT_TRUE(found.causes[0].leaves_rest);
    EXPECT_TRUE(found.then.empty());
}

/// What nobody wrote is most of what is wrong; the formula of the rest is that of all places.
TEST(IdentifiedPairs, AFormulaBesideWhatNobodyWrites) {
    KnownRun run(of_scores);
    run.recompute(Stage::s, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        if (row % 8 >= 2) return double(std::bit_cast<float>(unwritten_bits));
        return 0.25 * run.product(tile, row, col, [](std::int64_t d) { return d % 8 == 7 ? 8 : 0; });
    });
    const Diagnosis found = diagnosed(run.recording).diagnosis;
    ASSERT_EQ(found.causes.size(), 1u);
    ASSERT_EQ(found.then.size(), 1u);
    EXPECT_EQ(found.causes[0].name, "never_written");
    EXPECT_EQ(title_of(found.then[0]),
              "formula (s sum(d: q * k[b, h, i / block_m, j, d] * 8.0 where d % 8 == 7 else 0.0) * 0.25)");
}

TEST(Identified, AMaximumOfColumnsThatDependOnTheRow) {
    KnownRun run(of_maxima);
    run.recompute(Stage::m, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        const double before = tile.kv_tile > 0 ? run.at(Stage::m, KnownRun::before(tile), row) : -infinity;
        return std::max(before, largest(run, tile, row, row % 8));
    });
    EXPECT_EQ(run.found(), "formula: max(m, max(j: s where j % block_n >= i % 8 else -inf))");
}

TEST(Identified, AMaximumThatStaysWhileItIsSmall) {
    KnownRun run(of_maxima);
    run.recompute(Stage::m, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        const double before = tile.kv_tile > 0 ? run.at(Stage::m, KnownRun::before(tile), row) : -infinity;
        const double most = std::max(before, largest(run, tile, row, 0));
        return most < 1.5 ? before : most;
    });
    EXPECT_EQ(run.found(), "formula: m where max(m, max(j: s)) < 1.5 else max(m, max(j: s))");
}

TEST(Identified, ARowSumOfTransposedProbabilities) {
    Problem problem = small_call().problem;
    problem.seqlen_kv = 5 * problem.block_n;
    KnownRun run(of_sums, make_call(problem, known_run_seed));
    run.recompute(Stage::l, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        double sum =
            tile.kv_tile > 0 ? run.at(Stage::l, KnownRun::before(tile), row) * run.factor(tile, row) : 0;
        for (std::int64_t c = 0; c < 16; ++c) sum += run.at(Stage::p, tile, c, row);
        return sum;
    });
    EXPECT_EQ(
        run.found(),
        "formula: l * rescale + sum(j: p[b, h, i / block_m * block_m + j % block_n, j / block_n * block_n + "
        "i % block_m] where i / block_m * block_m + j % block_n < seqlen_q and j / block_n * block_n + "
        "i % block_m < seqlen_kv else 0.0)");
}

/// What a row's maximum is after a query block, where it is never set anew: a row behind the last query has scores of 0.
double left_maximum(const KnownRun& run, const TileId& block, std::int64_t row) {
    const Problem& p = run.call.problem;
    if (block.q_block * p.block_m + row < p.seqlen_q)
        return run.at(Stage::m, {block.batch, block.head, block.q_block, p.kv_tiles() - 1}, row);
    return std::max(0.0, left_maximum(run, {block.batch, block.head, block.q_block - 1, 0}, row));
}

TEST(Identified, MaximaThatAreNeverSetAnew) {
    KnownRun run(of_maxima);
    run.recompute(Stage::m, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        const std::int64_t last = run.call.problem.q_blocks() - 1;
        double before = -infinity;
        if (tile.kv_tile > 0)
            before = run.at(Stage::m, KnownRun::before(tile), row);
        else if (tile.q_block > 0)
            before = left_maximum(run, {tile.batch, tile.head, tile.q_block - 1, 0}, row);
        else if (tile.head > 0)
            before = left_maximum(run, {tile.batch, tile.head - 1, last, 0}, row);
        return std::max(before, largest(run, tile, row, 0));
    });
    EXPECT_EQ(run.found(), "starts_with_what_was_left: the state after the query block before");
}

TEST(Identified, ProbabilitiesWithTheMaximumOfAnotherRow) {
    KnownRun run(of_exponentials);
    run.recompute(Stage::p, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        return std::exp(run.at(Stage::s, tile, row, col) - run.at(Stage::m, tile, row / 4 * 4));
    });
    EXPECT_EQ(run.found(), "formula: exp(s - m[b, h, i / 4 * 4]) where s > -inf else 0.0");
}

/// A row whose maximum stays -inf is taken for one that saw no key: P subtracts nothing, which is no second mistake.
TEST(Identified, AMaximumThatStaysIsTheOnlyMistake) {
    KnownRun run(of_exponentials);
    run.recompute(Stage::m, [](auto&&...) { return -infinity; });
    run.recompute(Stage::p, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        return std::exp(run.at(Stage::s, tile, row, col));
    });
    const Report report = diagnosed(with_stages(run.recording, {Stage::s, Stage::m, Stage::p}));
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(title_of(report.diagnosis.causes[0]), "formula (m m)");
    EXPECT_TRUE(report.diagnosis.then.empty()) << title_of(report.diagnosis.then[0]);
}

/// The last query block has 8 rows: those that should go on from one behind them tell nothing.
TEST(Identified, AnAccumulatorThatGoesOnFromARowThatMayNotBeThere) {
    KnownRun run(of_products);
    run.recompute(Stage::acc, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        const bool first = tile.kv_tile == 0;
        double sum =
            first ? 0 : run.at(Stage::acc, KnownRun::before(tile), row + 1, col) * run.factor(tile, row);
        for (std::int64_t c = 0; c < 16; ++c) sum += run.product_of_v(tile, row, col, c);
        return sum;
    });
    EXPECT_EQ(run.found(),
              "formula: acc[b, h, i / block_m * block_m + (i % block_m + 1) where i % block_m + 1 < block_m "
              "else -1, e] "
              "* rescale + sum(j: p * v[b, h, i / block_m, j, e])");
}

/// Numbers of no pattern that are given in place of a stage's.
TEST(Identified, NothingIsReadOutOfNoise) {
    for (const Stage stage : {Stage::s, Stage::m, Stage::l, Stage::acc}) {
        KnownRun run({stage});
        std::mt19937_64 random(seed);
        std::normal_distribution<double> normal(0, 0.1);
        run.recompute(stage, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
            return run.at(stage, tile, row, col) * (1 + normal(random));
        });
        for (const FoundCause& cause : diagnosed(run.recording).diagnosis.causes)
            EXPECT_TRUE(cause.structural) << stage_info(stage).name << ": " << cause.name;
    }
}

Equations random_equations(Eigen::Index sums, const Eigen::VectorXd& weights, double noise) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    Equations equations{Eigen::MatrixXd(sums, weights.size()), Eigen::VectorXd(sums),
                        Eigen::VectorXd::Constant(sums, 1e-6)};
    for (double& term : equations.terms.reshaped()) term = normal(random);
    equations.sums = equations.terms * weights;
    for (double& sum : equations.sums) sum += noise * normal(random);
    return equations;
}

TEST(LeastSquares, TellsWeightsOfEachTerm) {
    Eigen::VectorXd weights = Eigen::VectorXd::LinSpaced(12, -3, 8);
    weights(5) = 0.3;
    const auto found = find_weights(random_equations(60, weights, 3e-7));
    ASSERT_TRUE(found);
    for (Eigen::Index i = 0; i < weights.size(); ++i) {
        if (i == 5) {
            EXPECT_NEAR((*found)(i), 0.3, 1e-6);
        } else {
            EXPECT_EQ((*found)(i), weights(i));
        }
    }
}

TEST(LeastSquares, TellsRepeatedWeightsFromFewSums) {
    Eigen::VectorXd weights = Eigen::VectorXd::Ones(64);
    for (Eigen::Index i = 3; i < 64; i += 4) weights(i) = 0;
    const auto found = find_weights(random_equations(12, weights, 3e-7));
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, weights);
}

TEST(LeastSquares, TellsNothingFromNoise) {
    EXPECT_FALSE(find_weights(random_equations(200, Eigen::VectorXd::Ones(16), 0.1)));
    // As many weights as sums fit anything.
    Eigen::VectorXd weights = Eigen::VectorXd::Random(64);
    EXPECT_FALSE(find_weights(random_equations(64, weights, 0)));
}

TEST(LeastSquares, TellsNothingOfTermsThatAreAllZero) {
    Equations equations = random_equations(8, Eigen::VectorXd::Ones(4), 0);
    equations.terms.setZero();
    EXPECT_FALSE(find_weights(equations));
}

}  // namespace
}  // namespace tilescope::test
