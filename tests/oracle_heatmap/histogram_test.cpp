// Histograms of elements that were counted by hand.

#include "oracle/heatmap/histogram.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/oracle_heatmap/one_tile.h"

namespace tilescope::test {
namespace {

TEST(Histogram, CountsExponentsErrorsAndKinds) {
    const OneTile tile =
        row_of(Stage::acc, {1, 1.5f, -3, 0, 0x1p-149f, std::numeric_limits<float>::infinity(), 8},
               {1, 1.25, -2, 0, 0, 1, 0.5}, {1, 0.125, 4, 1, 1, 1, 0.0075});
    Histogram found;
    add_tile(tile.view(), {0, 0, 1, 7}, found);
    EXPECT_EQ(found.elements, 7);
    EXPECT_EQ(found.dumped[std::size_t(0 + 149)], 2);    // 1, 1.5
    EXPECT_EQ(found.dumped[std::size_t(1 + 149)], 1);    // -3
    EXPECT_EQ(found.dumped[std::size_t(3 + 149)], 1);    // 8
    EXPECT_EQ(found.dumped[0], 1);                       // 2^-149
    EXPECT_EQ(found.expected[std::size_t(0 + 149)], 3);  // 1, 1.25, 1
    EXPECT_EQ(found.expected[std::size_t(-1 + 149)], 1);
    EXPECT_EQ(found.zeros, 1);
    EXPECT_EQ(found.exact, 2);
    EXPECT_EQ(found.kinds[std::size_t(Kind::finite)], 6);
    EXPECT_EQ(found.kinds[std::size_t(Kind::plus_infinity)], 1);
    // Ratios 2, 0.25, 2^-149 and 1000: floor(4 log10) is 1, -3, below the lowest bin, and 12.
    EXPECT_EQ(found.over_budget[std::size_t(1 + 40)], 1);
    EXPECT_EQ(found.over_budget[std::size_t(-3 + 40)], 1);
    EXPECT_EQ(found.over_budget[0], 1);
    EXPECT_EQ(found.over_budget[std::size_t(12 + 40)], 1);
    EXPECT_EQ(std::accumulate(found.over_budget.begin(), found.over_budget.end(), std::int64_t(0)), 4);
}

TEST(Histogram, CountsAPartAndMerges) {
    const OneTile tile = row_of(Stage::acc, {1, 2, 4, 8}, {1, 1, 1, 1}, {1, 1, 1, 1});
    Histogram left;
    Histogram right;
    add_tile(tile.view(), {0, 0, 1, 1}, left);
    add_tile(tile.view(), {0, 2, 9, 9}, right);
    EXPECT_EQ(left.elements, 1);
    EXPECT_EQ(right.elements, 2);
    merge(right, left);
    EXPECT_EQ(left.elements, 3);
    EXPECT_EQ(left.exact, 1);
    EXPECT_EQ(left.dumped[std::size_t(1 + 149)], 0);
    EXPECT_EQ(left.dumped[std::size_t(2 + 149)], 1);
}

}  // namespace
}  // namespace tilescope::test
