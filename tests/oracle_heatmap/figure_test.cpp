// What stands around a heatmap: numbers along axes and colours, letters, and the ring.

#include "oracle/heatmap/figure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "oracle/heatmap/worst.h"

namespace tilescope::test {
namespace {

TEST(Ticks, AreMultiplesOfATileOrHalvesOfIt) {
    EXPECT_EQ(tick_step(64, 16, 40), 4);
    EXPECT_EQ(tick_step(64, 1, 40), 64);
    EXPECT_EQ(tick_step(64, 0.125, 40), 512);
    EXPECT_EQ(tick_step(40, 8, 40), 5);
    EXPECT_EQ(tick_step(40, 4, 40), 10);
    EXPECT_EQ(tick_step(1, 100, 40), 1);
}

TEST(Ticks, OfALogarithmicScaleAreDecadesAndOneIsAmongThem) {
    const Scale budget{ScaleKind::log, 1e-5, 1e5, 1};
    const std::vector<double> ticks = scale_ticks(budget, 6);
    ASSERT_EQ(ticks.size(), 5u);
    for (std::size_t i = 0; i < ticks.size(); ++i)
        EXPECT_DOUBLE_EQ(ticks[i], std::pow(10, 2.0 * double(i) - 4));
    EXPECT_EQ(scale_ticks({ScaleKind::log, 2, 7, 1}, 5), (std::vector<double>{2, 7}));
}

TEST(Ticks, OfALinearScaleAreRoundAndInside) {
    const std::vector<double> ticks = scale_ticks({ScaleKind::linear, -7.3, 7.3, 1}, 8);
    ASSERT_EQ(ticks.size(), 7u);
    for (std::size_t i = 0; i < ticks.size(); ++i) EXPECT_NEAR(ticks[i], 2.0 * double(i) - 6, 1e-12);
    EXPECT_EQ(scale_ticks({ScaleKind::linear, 3, 3, 1}, 8).size(), 5u);
}

TEST(Letters, AreOneCellForEachCharacter) {
    EXPECT_EQ(text_width("acc"), 3 * letter_width);
    EXPECT_EQ(text_width("caf\u00e9"), 4 * letter_width);
    Image image(4 * letter_width, line_height);
    draw_text(image, 0, 2, "1 \u5185", {10, 20, 30});
    const auto has_ink = [&](int cell) {
        for (int y = 0; y < image.height; ++y) {
            for (int x = cell * letter_width; x < (cell + 1) * letter_width; ++x)
                if (image.at(x, y) != 0) return true;
        }
        return false;
    };
    EXPECT_TRUE(has_ink(0));
    EXPECT_FALSE(has_ink(1));
    EXPECT_TRUE(has_ink(2));
    EXPECT_FALSE(has_ink(3));
}

TEST(Letters, OutsideOfTheImageAreLeftOut) {
    Image image(5, 5);
    draw_text(image, -7, -9, "WWW", {255, 255, 255});
    draw_ring(image, 100, -3, 2, 200, {255, 0, 0});
    fill_box(image, {-10, -10, 100, 100}, {1, 2, 3});
    for (const std::uint32_t pixel : image.pixels) EXPECT_EQ(pixel, packed({1, 2, 3}));
}

/// A pyramid of 8 x 8 elements with those values at places (row, column).
struct Placed {
    std::size_t row;
    std::size_t col;
    float value;
    Kind kind = Kind::finite;
};
void fill(Pyramid& pyramid, const std::vector<Placed>& placed) {
    std::vector<float> values(64, 0.25F);
    std::vector<Kind> kinds(64, Kind::finite);
    for (const Placed& one : placed) {
        values[one.row * 8 + one.col] = one.value;
        kinds[one.row * 8 + one.col] = one.kind;
    }
    pyramid.set_tile(0, 0, 8, 8, values, kinds);
    pyramid.complete();
}

TEST(WorstCell, IsTheOneFurthestFromItsBudget) {
    Pyramid pyramid(8, 8, 1, Pyramid::Sign::never_negative);
    fill(pyramid, {{2, 3, 5}, {6, 1, 7}, {7, 7, 0, Kind::masked}});
    EXPECT_EQ(worst_cell(pyramid, {0, 0, 8, 8}), (Rect{6, 1, 7, 2}));
    EXPECT_EQ(worst_cell(pyramid, {0, 0, 5, 8}), (Rect{2, 3, 3, 4}));
    EXPECT_EQ(worst_cell(pyramid, {0, 0, 0, 8}), std::nullopt);
}

TEST(WorstCell, WhatIsNotFiniteIsFurtherThanAllElse) {
    Pyramid pyramid(8, 8, 1, Pyramid::Sign::never_negative);
    fill(pyramid,
         {{2, 3, std::numeric_limits<float>::max() / 2}, {5, 5, 0, Kind::nan}, {6, 6, 0, Kind::unwritten}});
    EXPECT_EQ(worst_cell(pyramid, {0, 0, 8, 8}), (Rect{5, 5, 6, 6}));
}

TEST(WorstCell, IsNoneWhereNothingIsKnown) {
    const Pyramid pyramid(8, 8, 1, Pyramid::Sign::never_negative);
    EXPECT_EQ(worst_cell(pyramid, {0, 0, 8, 8}), std::nullopt);
}

}  // namespace
}  // namespace tilescope::test
