// A pyramid against a plain matrix that is looked at element by element.

#include "oracle/heatmap/pyramid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "tests/oracle_heatmap/plain_matrix.h"

namespace tilescope::test {
namespace {

/// What a rectangle of the matrix holds.
Summary brute_force(const PlainMatrix& matrix, const Rect& rect) {
    Summary found;
    bool any = false;
    for (std::int64_t row = rect.first_row; row < rect.last_row; ++row) {
        for (std::int64_t col = rect.first_col; col < rect.last_col; ++col) {
            const Kind kind = matrix.kind(row, col);
            found.kinds |= KindFlags(1 << int(kind));
            if (kind != Kind::finite) continue;
            const float value = matrix.value(row, col);
            found.min = any ? std::min(found.min, value) : value;
            found.max = any ? std::max(found.max, value) : value;
            any = true;
        }
    }
    return found;
}

class RandomPyramid : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomPyramid, HoldsTheWorstOfEveryRectangle) {
    std::mt19937_64 random(GetParam());
    const auto number = [&](std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const std::int64_t rows = number(1, 150);
    const std::int64_t cols = number(1, 150);
    const PlainMatrix matrix(rows, cols, GetParam());
    Pyramid pyramid(rows, cols);
    matrix.fill(pyramid, number(1, 40), number(1, 40));
    ASSERT_TRUE(pyramid.holds_elements());
    for (int i = 0; i < 300; ++i) {
        Rect rect{number(0, rows - 1), number(0, cols - 1), 0, 0};
        rect.last_row = number(rect.first_row + 1, rows);
        rect.last_col = number(rect.first_col + 1, cols);
        ASSERT_EQ(pyramid.worst_of(rect), brute_force(matrix, rect))
            << "seed " << GetParam() << ": " << rows << " x " << cols << ", rows " << rect.first_row << "-"
            << rect.last_row << ", columns " << rect.first_col << "-" << rect.last_col;
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPyramid, ::testing::Range<std::uint64_t>(1, 21));

TEST(Pyramid, EveryLevelCoversWhatIsBelow) {
    const PlainMatrix matrix(77, 53, 4);
    Pyramid pyramid(77, 53);
    matrix.fill(pyramid, 16, 16);
    for (int i = 0; i < pyramid.level_count(); ++i) {
        const Pyramid::Level& level = pyramid.level(i);
        ASSERT_EQ(level.block_rows, std::int64_t(1) << i);
        for (std::int64_t row = 0; row < level.rows; ++row) {
            for (std::int64_t col = 0; col < level.cols; ++col) {
                const Rect covered{row << i, col << i, std::min<std::int64_t>((row + 1) << i, 77),
                                   std::min<std::int64_t>((col + 1) << i, 53)};
                const Summary expected = brute_force(matrix, covered);
                const auto cell = std::size_t(row * level.cols + col);
                ASSERT_EQ(level.kinds[cell], expected.kinds);
                if (!expected.has(Kind::finite)) continue;
                ASSERT_EQ(level.min[cell], expected.min);
                ASSERT_EQ(level.max[cell], expected.max);
            }
        }
    }
    EXPECT_EQ(pyramid.level(pyramid.level_count() - 1).rows, 1);
}

TEST(Pyramid, BlocksOfALargeOneLoseNoElement) {
    // More elements than level 0 has cells: blocks of 8 x 8.
    constexpr std::int64_t size = 4096;
    Pyramid pyramid(size, size);
    ASSERT_FALSE(pyramid.holds_elements());
    EXPECT_EQ(pyramid.level(0).block_rows, 8);
    const std::vector<float> zeros(std::size_t(size * 64), 0.0f);
    for (std::int64_t row = 0; row < size; row += 64) pyramid.set_tile(row, 0, 64, size, zeros, {});
    const float value = -7;
    pyramid.set_tile(1003, 2050, 1, 1, std::span(&value, 1), {});
    EXPECT_EQ(pyramid.whole().min, -7);
    EXPECT_EQ(pyramid.whole().worst(), -7);
    EXPECT_EQ(pyramid.worst_of({1003, 2050, 1004, 2051}).min, -7);
    // Blocks that do not hold it.
    EXPECT_EQ(pyramid.worst_of({1008, 0, size, size}).min, 0);
    EXPECT_EQ(pyramid.worst_of({0, 0, 1000, size}).min, 0);
    EXPECT_EQ(pyramid.worst_of({0, 2056, size, size}).min, 0);
}

TEST(Pyramid, WithoutNegativeValuesKeepsTheMaximumAlone) {
    const PlainMatrix matrix(90, 70, 6);
    Pyramid pyramid(90, 70, 1, Pyramid::Sign::never_negative);
    std::vector<float> values;
    std::vector<Kind> kinds;
    float largest = 0;
    for (std::int64_t i = 0; i < 90 * 70; ++i) {
        kinds.push_back(matrix.kind(i / 70, i % 70));
        values.push_back(std::abs(matrix.value(i / 70, i % 70)));
        largest = std::max(largest, values.back());
    }
    pyramid.set_tile(0, 0, 90, 70, values, kinds);
    EXPECT_EQ(pyramid.whole().max, largest);
    EXPECT_EQ(pyramid.whole().min, 0);
    EXPECT_EQ(pyramid.whole().kinds, brute_force(matrix, {0, 0, 90, 70}).kinds);
    EXPECT_EQ(pyramid.range(0).high, largest);
    EXPECT_LT(pyramid.bytes(), Pyramid(90, 70).bytes());
}

TEST(Pyramid, NarrowOnesKeepTheirColumnsApart) {
    const Pyramid pyramid(200000, 64);
    EXPECT_EQ(pyramid.level(0).block_cols, 1);
    EXPECT_LE(pyramid.level(0).rows * pyramid.level(0).cols, Pyramid::max_cells);
}

TEST(Pyramid, SaysWhatIsThere) {
    Pyramid pyramid(64, 64, 4);
    EXPECT_EQ(pyramid.whole().kinds, 0);
    EXPECT_EQ(pyramid.filled(), 0);
    const std::vector<float> values(32 * 32, 1.0f);
    pyramid.set_tile(0, 0, 32, 32, values, {});
    EXPECT_EQ(pyramid.filled(), 0.25);
    EXPECT_EQ(pyramid.worst_of({32, 0, 64, 64}).kinds, 0);
    const std::uint64_t before = pyramid.version();
    pyramid.complete();
    EXPECT_NE(pyramid.version(), before);
    EXPECT_EQ(pyramid.filled(), 1);
}

TEST(Pyramid, IsFilledFromSeveralThreads) {
    const PlainMatrix matrix(300, 210, 9);
    Pyramid pyramid(300, 210);
    {
        std::vector<std::jthread> threads;
        for (int part = 0; part < 4; ++part)
            threads.emplace_back([&, part] { matrix.fill_part(pyramid, 10, 7, part, 4); });
    }
    EXPECT_EQ(pyramid.whole(), brute_force(matrix, {0, 0, 300, 210}));
    EXPECT_EQ(pyramid.worst_of({17, 3, 255, 150}), brute_force(matrix, {17, 3, 255, 150}));
}

TEST(Pyramid, RangeLeavesOutTheEnds) {
    Pyramid pyramid(1, 100);
    std::vector<float> values(100);
    for (std::size_t i = 0; i < 100; ++i) values[i] = float(i);
    values[50] = 1e6f;
    pyramid.set_tile(0, 0, 1, 100, values, {});
    EXPECT_EQ(pyramid.range(0).low, 0);
    EXPECT_EQ(pyramid.range(0).high, 1e6);
    EXPECT_EQ(pyramid.range(0.02).high, 98);
    EXPECT_EQ(pyramid.range(0.02).low, 2);
    EXPECT_EQ(pyramid.smallest_magnitude(), 1);
}

TEST(Pyramid, RangeOfNothingIsEmpty) {
    Pyramid pyramid(8, 8);
    const std::vector<float> values(64, 0.0f);
    const std::vector<Kind> kinds(64, Kind::nan);
    pyramid.set_tile(0, 0, 8, 8, values, kinds);
    EXPECT_EQ(pyramid.range(0).low, 0);
    EXPECT_EQ(pyramid.range(0).high, 0);
    EXPECT_EQ(pyramid.whole().kinds, 1 << int(Kind::nan));
}

TEST(Pyramid, FindsTheFewThatAreNoNumbers) {
    // More elements than level 0 has cells.
    constexpr std::int64_t rows = 3000;
    constexpr std::int64_t cols = 5001;
    Pyramid pyramid(rows, cols);
    const std::vector<float> values(std::size_t(rows * cols), 1.0F);
    std::vector<Kind> kinds(values.size(), Kind::finite);
    const std::pair<std::int64_t, std::int64_t> places[] = {{0, 0}, {1234, 4321}, {2999, 5000}};
    for (const auto& [row, col] : places) kinds[std::size_t(row * cols + col)] = Kind::nan;
    kinds[5] = Kind::unwritten;
    pyramid.set_tile(0, 0, rows, cols, values, kinds);
    const std::vector<Rect> found = pyramid.few_with(flag_of(Kind::nan), 3);
    ASSERT_EQ(found.size(), 3u);
    for (std::size_t i = 0; i < found.size(); ++i) {
        const auto [row, col] = places[i];
        EXPECT_TRUE(found[i].first_row <= row && row < found[i].last_row && found[i].first_col <= col &&
                    col < found[i].last_col);
        EXPECT_LE((found[i].last_row - found[i].first_row) * (found[i].last_col - found[i].first_col), 64);
    }
    EXPECT_TRUE(pyramid.few_with(flag_of(Kind::nan), 2).empty());
    EXPECT_TRUE(pyramid.few_with(flag_of(Kind::masked), 3).empty());
}

}  // namespace
}  // namespace tilescope::test
