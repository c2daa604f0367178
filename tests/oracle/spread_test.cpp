// How far acc and o can be from what is expected, against what each row has seen of V, key by key.

#include "oracle/judge/spread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "tests/oracle/attention_inputs.h"

namespace tilescope::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Matrix random_matrix(std::int64_t rows, std::int64_t cols, std::mt19937_64& random) {
    return Matrix::NullaryExpr(rows, cols, [&] { return std::normal_distribution<double>(0.1)(random); });
}

/// Of one element, by its definition.
struct Seen {
    double least = infinity;
    double most = -infinity;
    double negative = 0;
    double positive = 0;

    void see(double v) {
        least = std::min(least, v);
        most = std::max(most, v);
        negative += std::min(v, 0.0);
        positive += std::max(v, 0.0);
    }
    double of_sum(double value) const {
        return negative >= positive ? 0 : std::max(value - negative, positive - value);
    }
    double of_mean(double value) const { return least >= most ? 0 : std::max(value - least, most - value); }
};

void expect_spreads(const std::function<KeyRange(std::int64_t row)>& keys_of) {
    std::mt19937_64 random(21);
    HeadCall call;
    call.problem = small_problem();
    call.visible = [&](std::int64_t row, std::int64_t) { return keys_of(row); };
    const Problem& problem = call.problem;
    const std::int64_t rows = problem.block_m;
    const Matrix v = random_matrix(problem.seqlen_kv, problem.head_dim_v, random);
    Spreads spreads(call, 0, rows);
    std::vector<Seen> seen(std::size_t(rows * problem.head_dim_v));
    for (std::int64_t tile = 0; tile < problem.kv_tiles(); ++tile) {
        const std::int64_t first = tile * problem.block_n;
        const std::int64_t keys = std::min(problem.block_n, problem.seqlen_kv - first);
        const Operand q{random_matrix(rows, problem.head_dim, random)};
        const Operand k{random_matrix(keys, problem.head_dim, random)};
        const Operand here{v.middleRows(first, keys)};
        TileEstimates estimates;
        estimates.l = zeros(rows, 1);
        estimates.acc = {random_matrix(rows, problem.head_dim_v, random),
                         Matrix::Zero(rows, problem.head_dim_v)};
        DumpedTile dumped;
        dumped[static_cast<std::size_t>(Stage::acc)] = MatrixF::Zero(rows, problem.head_dim_v);
        spreads.add(tile, {q, k, here}, dumped, estimates);
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < problem.head_dim_v; ++j) {
                Seen& element = seen[std::size_t(i * problem.head_dim_v + j)];
                for (std::int64_t key = first; key < first + keys; ++key)
                    if (keys_of(i).contains(key)) element.see(v(key, j));
                ASSERT_NEAR(estimates.acc.spread(i, j), element.of_sum(estimates.acc.value(i, j)), 1e-12)
                    << "KV tile " << tile << ", row " << i << ", column " << j;
            }
        }
    }
    Estimate o = {random_matrix(rows, problem.head_dim_v, random), {}};
    spreads.add_output(o);
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < problem.head_dim_v; ++j) {
            const Seen& element = seen[std::size_t(i * problem.head_dim_v + j)];
            ASSERT_NEAR(o.spread(i, j), element.of_mean(o.value(i, j)), 1e-12) << i << ", " << j;
        }
    }
}

TEST(Spread, OfRowsThatSeeEverything) {
    const Problem problem = small_problem();
    expect_spreads([&](std::int64_t) { return KeyRange{0, problem.seqlen_kv}; });
}

TEST(Spread, OfRowsThatSeeTheSameAndThenEachItsOwn) {
    const Problem problem = small_problem();
    ASSERT_GE(problem.kv_tiles(), 2);
    expect_spreads([&](std::int64_t row) { return KeyRange{0, problem.block_n + row + 1}; });
}

TEST(Spread, OfRowsThatSeeNothingAtFirst) {
    const Problem problem = small_problem();
    expect_spreads([&](std::int64_t row) {
        return KeyRange{row % 3 == 0 ? problem.block_n + row % 2 : row % 3, problem.seqlen_kv};
    });
}

TEST(Spread, OfRowsThatSeeNoneOrOneKey) {
    expect_spreads([&](std::int64_t row) { return row % 2 == 0 ? KeyRange{} : KeyRange{3, 4}; });
}

}  // namespace
}  // namespace tilescope::test
