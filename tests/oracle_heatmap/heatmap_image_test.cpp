// Images against the elements that their pixels cover, looked at one by one.

#include "oracle/heatmap/heatmap_image.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

#include "tests/oracle_heatmap/plain_matrix.h"

namespace tilescope::test {
namespace {

/// Elements [from, to) of one axis that pixel `i` of `pixels` touches.
std::pair<std::int64_t, std::int64_t> touched(double first, double extent, int i, int pixels,
                                              std::int64_t size) {
    const double from = std::floor(first + i * (extent / pixels));
    const double to = std::ceil(first + (i + 1) * (extent / pixels));
    return {std::int64_t(std::max(from, 0.0)), std::int64_t(std::min(to, double(size)))};
}

struct Worst {
    Kind kind = Kind::not_captured;
    float value = 0;
    bool inside = false;
};

/// Severity, written down here once more.
int rank(Kind kind) {
    constexpr std::array mildest_first = {Kind::not_captured,
                                          Kind::not_judged,
                                          Kind::masked,
                                          Kind::indifferent,
                                          Kind::finite,
                                          Kind::inherited,
                                          Kind::should_be_infinite,
                                          Kind::minus_infinity,
                                          Kind::plus_infinity,
                                          Kind::unwritten,
                                          Kind::nan};
    return int(std::ranges::find(mildest_first, kind) - mildest_first.begin());
}

Worst worst_under(const PlainMatrix& matrix, const PlaneView& view, const Image& image, int x, int y) {
    const auto [top, bottom] = touched(view.first_row, view.rows, y, image.height, matrix.rows());
    const auto [left, right] = touched(view.first_col, view.cols, x, image.width, matrix.cols());
    Worst worst;
    bool finite = false;
    for (std::int64_t row = top; row < bottom; ++row) {
        for (std::int64_t col = left; col < right; ++col) {
            const Kind kind = matrix.kind(row, col);
            const float value = matrix.value(row, col);
            worst.inside = true;
            finite = finite || kind == Kind::finite;
            if (rank(kind) > rank(worst.kind)) worst.kind = kind;
            if (kind == Kind::finite && std::abs(value) > std::abs(worst.value)) worst.value = value;
        }
    }
    // What is inherited stands back behind an element beyond its budget.
    if (worst.kind == Kind::inherited && finite && worst.value > 1) worst.kind = Kind::finite;
    return worst;
}

/// The place of a colour in a palette, -1 for none.
int index_of(std::uint32_t pixel, ColourMap map) {
    const Palette& colours = palette(map);
    for (std::size_t i = 0; i < colours.size(); ++i)
        if (packed(colours[i]) == pixel) return int(i);
    return -1;
}

bool is_kind(std::uint32_t pixel, Kind kind) {
    return pixel == packed(kind_style(kind).first) || pixel == packed(kind_style(kind).second);
}

void expect_pixel(const Image& image, int x, int y, const Worst& worst, const ImageStyle& style) {
    const std::uint32_t pixel = image.at(x, y);
    if (!worst.inside) {
        ASSERT_EQ(pixel, 0u) << x << ", " << y;
        return;
    }
    if (worst.kind != Kind::finite) {
        ASSERT_EQ(pixel, packed(colour_of(worst.kind, x, y))) << x << ", " << y;
        return;
    }
    const int shown = index_of(pixel, style.colours);
    ASSERT_GE(shown, 0) << x << ", " << y << " is " << std::hex << pixel;
    // One of 256 colours to either side: float32 positions, and logarithms from a table.
    ASSERT_NEAR(shown, 255 * style.scale.position(worst.value), 1.6) << x << ", " << y;
}

struct Case {
    const char* name;
    PlaneView view;
    int width;
    int height;
};

class EveryPixel : public ::testing::TestWithParam<Case> {};

TEST_P(EveryPixel, ShowsTheWorstOfWhatItCovers) {
    const Case& c = GetParam();
    const PlainMatrix matrix(200, 300, 11);
    Pyramid pyramid(200, 300);
    matrix.fill(pyramid, 16, 32);
    pyramid.complete();
    for (const ImageStyle& style : {ImageStyle{{ScaleKind::linear, -3, 3, 1}, ColourMap::diverging},
                                    ImageStyle{{ScaleKind::log, 1e-3, 4, 1}, ColourMap::sequential},
                                    ImageStyle{{ScaleKind::symlog, -4, 4, 0.1}, ColourMap::diverging}}) {
        Image image(c.width, c.height);
        render(pyramid, {}, c.view, style, image);
        for (int y = 0; y < c.height; ++y)
            for (int x = 0; x < c.width; ++x)
                expect_pixel(image, x, y, worst_under(matrix, c.view, image, x, y), style);
        Image in_parts(c.width, c.height);
        for (const auto& [first, last] : {std::pair(c.height / 3, c.height), std::pair(0, c.height / 3)})
            render_rows(pyramid, {}, c.view, style, first, last, in_parts);
        EXPECT_EQ(in_parts.pixels, image.pixels);
    }
}

// Zoomed in, or out by powers of two: pixels and cells of a level cover the same elements.
INSTANTIATE_TEST_SUITE_P(Views, EveryPixel,
                         ::testing::Values(Case{"one_to_one", {0, 0, 200, 300}, 300, 200},
                                           Case{"half", {0, 0, 200, 300}, 150, 100},
                                           Case{"quarter", {0, 0, 200, 304}, 76, 50},
                                           Case{"eighth", {0, 0, 200, 304}, 38, 25},
                                           Case{"zoomed_in", {20, 31, 20, 30}, 330, 220},
                                           Case{"fractions", {20.3, 31.7, 17.1, 23.9}, 211, 187},
                                           Case{"wide_pixels", {5, 0, 20, 300}, 25, 200},
                                           Case{"tall_pixels", {0, 7, 200, 20}, 200, 11},
                                           Case{"outside", {-40, -50, 300, 400}, 400, 300},
                                           Case{"one_element", {77, 78, 1, 1}, 16, 16},
                                           Case{"beside_it", {500, 500, 10, 10}, 20, 20}),
                         [](const auto& tested) { return tested.param.name; });

TEST(HeatmapImage, OfValuesThatAreNeverNegativeIsTheSame) {
    PlainMatrix matrix(120, 90, 13);
    for (std::int64_t row = 0; row < 120; ++row)
        for (std::int64_t col = 0; col < 90; ++col)
            matrix.set(row, col, std::abs(matrix.value(row, col)), matrix.kind(row, col));
    Pyramid any(120, 90);
    Pyramid never_negative(120, 90, 1, Pyramid::Sign::never_negative);
    matrix.fill(any, 16, 16);
    matrix.fill(never_negative, 16, 16);
    const ImageStyle style{{ScaleKind::log, 1e-3, 4, 1}, ColourMap::sequential};
    for (const double extent : {120.0, 77.7, 13.0, 400.0}) {
        Image left(64, 64);
        Image right(64, 64);
        render(any, {}, {1.5, 2.5, extent, extent}, style, left);
        render(never_negative, {}, {1.5, 2.5, extent, extent}, style, right);
        EXPECT_EQ(left.pixels, right.pixels);
    }
}

TEST(HeatmapImage, NothingIsLostAndNothingInventedAtAnyZoom) {
    constexpr std::uint64_t seed = 71;
    std::mt19937_64 random(seed);
    const PlainMatrix matrix(200, 300, seed);
    Pyramid pyramid(200, 300);
    matrix.fill(pyramid, 16, 32);
    const ImageStyle style{{ScaleKind::linear, -3, 3, 1}, ColourMap::diverging};
    for (int i = 0; i < 60; ++i) {
        const auto draw = [&](double low, double high) {
            return std::uniform_real_distribution<double>(low, high)(random);
        };
        const PlaneView view{draw(-20, 100), draw(-20, 100), draw(1, 250), draw(1, 350)};
        Image image(int(draw(1, 90)), int(draw(1, 90)));
        render(pyramid, {}, view, style, image);
        // What a pixel's cells reach beyond it is less than the pixel.
        const double down = view.rows / image.height;
        const double across = view.cols / image.width;
        for (int y = 0; y < image.height; ++y) {
            for (int x = 0; x < image.width; ++x) {
                const bool shown = is_kind(image.at(x, y), Kind::nan);
                const bool there = worst_under(matrix, view, image, x, y).kind == Kind::nan;
                ASSERT_TRUE(shown || !there) << "lost at " << x << ", " << y << ", seed " << seed;
                Image pixel(1, 1);
                const PlaneView around{view.first_row + (y - 1) * down, view.first_col + (x - 1) * across,
                                       3 * down, 3 * across};
                const bool near = worst_under(matrix, around, pixel, 0, 0).kind == Kind::nan;
                ASSERT_TRUE(near || !shown) << "invented at " << x << ", " << y << ", seed " << seed;
            }
        }
    }
}

TEST(HeatmapImage, ALoneNanIsSeenAtSixteenZooms) {
    constexpr std::int64_t size = 4096;
    constexpr std::uint64_t seed = 72;
    std::mt19937_64 random(seed);
    const auto row = std::int64_t(random() % size);
    const auto col = std::int64_t(random() % size);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pyramid pyramid(size, size);
    for (std::int64_t tile = 0; tile < size; tile += 64) {
        std::vector<float> values(64 * size, 1e-3f);
        std::vector<Kind> kinds(values.size(), Kind::finite);
        if (row / 64 * 64 == tile) kinds[std::size_t((row - tile) * size + col)] = Kind::nan;
        pyramid.set_tile(tile, 0, 64, size, values, kinds);
    }
    const ImageStyle style{{ScaleKind::log, 1e-3, 1e3, 1}, ColourMap::budget};
    for (int zoom = 0; zoom < 16; ++zoom) {
        // From the whole plane down to less than an element.
        const double extent = size * std::pow(0.5, zoom * 0.85);
        const double share = std::uniform_real_distribution<double>(0, 1)(random);
        const PlaneView view{double(row) + 0.5 - share * extent, double(col) + 0.5 - share * extent, extent,
                             extent};
        Image image(160, 100);
        render(pyramid, {}, view, style, image);
        const auto found = std::ranges::count_if(
            image.pixels, [](std::uint32_t pixel) { return is_kind(pixel, Kind::nan); });
        EXPECT_GE(found, 1) << extent << " elements wide";
    }
}

TEST(HeatmapImage, WhatIsNotThereYetDiffersFromWhatWasNotCaptured) {
    Pyramid pyramid(32, 32, 4);
    Image before(32, 32);
    Image after(32, 32);
    const PlaneView whole{0, 0, 32, 32};
    render(pyramid, {}, whole, {}, before);
    pyramid.complete();
    render(pyramid, {}, whole, {}, after);
    const auto all_of = [](const Image& image, Kind kind) {
        return std::ranges::all_of(image.pixels, [&](std::uint32_t pixel) { return is_kind(pixel, kind); });
    };
    EXPECT_TRUE(all_of(before, Kind::not_judged));
    EXPECT_TRUE(all_of(after, Kind::not_captured));
}

TEST(HeatmapImage, SmallErrorsBesideLargeOnesOfTheOtherSignAreShownByMagnitude) {
    PlainMatrix matrix(2, 2);
    matrix.set(0, 0, 1);
    matrix.set(1, 1, -2);
    Pyramid pyramid(2, 2);
    matrix.fill(pyramid, 2, 2);
    Image image(1, 1);
    const ImageStyle style{{ScaleKind::linear, -2, 2, 1}, ColourMap::diverging};
    render(pyramid, {}, {0, 0, 2, 2}, style, image);
    EXPECT_EQ(image.pixels[0], packed(palette(ColourMap::diverging).front()));
}

TEST(HeatmapImage, EmptyImagesAndViewsDoNothing) {
    Pyramid pyramid(8, 8);
    Image none(0, 0);
    render(pyramid, {}, {0, 0, 8, 8}, {}, none);
    Image image(4, 4);
    render(pyramid, {}, {0, 0, 0, 8}, {}, image);
    EXPECT_EQ(std::ranges::count(image.pixels, 0u), 16);
    render(pyramid, {}, {0, 0, std::nan(""), 8}, {}, image);
    EXPECT_EQ(std::ranges::count(image.pixels, 0u), 16);
}

TEST(FittingScale, SuitsTheQuantity) {
    PlainMatrix matrix(1, 4);
    matrix.set(0, 0, -1);
    matrix.set(0, 1, 4);
    Pyramid pyramid(1, 4);
    matrix.fill(pyramid, 1, 4);
    const Scale both = fitting_scale(pyramid, Quantity::difference, ScaleKind::linear, 0);
    EXPECT_EQ(both.low, -4);
    EXPECT_EQ(both.high, 4);
    EXPECT_EQ(fitting_colours(pyramid, Quantity::difference), ColourMap::diverging);
    matrix.set(0, 0, 2);
    Pyramid positive(1, 4);
    matrix.fill(positive, 1, 4);
    EXPECT_EQ(fitting_colours(positive, Quantity::dumped), ColourMap::sequential);
    EXPECT_EQ(fitting_scale(positive, Quantity::dumped, ScaleKind::linear, 0).low, 0);
    const Scale budget = fitting_scale(positive, Quantity::over_budget, ScaleKind::log, 0);
    EXPECT_DOUBLE_EQ(budget.position(1), 0.5);
    Pyramid empty(4, 4);
    const Scale of_nothing = fitting_scale(empty, Quantity::relative, ScaleKind::log, 0);
    EXPECT_GT(of_nothing.low, 0);
    EXPECT_GT(of_nothing.high, of_nothing.low);
}

}  // namespace
}  // namespace tilescope::test
