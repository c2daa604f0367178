// Colours: monotone, apart from each other, and where a scale says.

#include "oracle/heatmap/colour.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tilescope::test {
namespace {

/// Relative luminance as WCAG 2 defines it.
double luminance(Colour colour) {
    const auto linear = [](double c) {
        return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(colour.r / 255.0) + 0.7152 * linear(colour.g / 255.0) +
           0.0722 * linear(colour.b / 255.0);
}

TEST(Palette, SequentialGetsBrighter) {
    const Palette& colours = palette(ColourMap::sequential);
    for (std::size_t i = 1; i < colours.size(); ++i)
        EXPECT_GE(luminance(colours[i]), luminance(colours[i - 1]) - 1e-3) << i;
    EXPECT_GT(luminance(colours.back()), 10 * luminance(colours.front()));
}

TEST(Palette, DivergingIsBrightestInTheMiddle) {
    const Palette& colours = palette(ColourMap::diverging);
    for (std::size_t i = 1; i < 127; ++i) EXPECT_GE(luminance(colours[i]), luminance(colours[i - 1]) - 1e-3);
    for (std::size_t i = 129; i < 256; ++i)
        EXPECT_LE(luminance(colours[i]), luminance(colours[i - 1]) + 1e-3);
    EXPECT_GT(colours.front().b, colours.front().r);
    EXPECT_GT(colours.back().r, colours.back().b);
}

TEST(Palette, BudgetStepsWhereTheBudgetIsSpent) {
    const Palette& colours = palette(ColourMap::budget);
    EXPECT_GT(colours[127].b, colours[127].r);
    EXPECT_GT(colours[128].r, 2 * colours[128].b);
    // No colour of one half is near one of the other.
    for (std::size_t i = 0; i < 128; ++i) {
        for (std::size_t j = 128; j < 256; ++j) {
            const int distance = std::abs(colours[i].r - colours[j].r) +
                                 std::abs(colours[i].g - colours[j].g) +
                                 std::abs(colours[i].b - colours[j].b);
            ASSERT_GT(distance, 100) << i << " and " << j;
        }
    }
}

TEST(Palette, EndsAreThePublishedAnchors) {
    EXPECT_EQ(palette(ColourMap::sequential).front(), (Colour{0x44, 0x01, 0x54, 255}));
    EXPECT_EQ(palette(ColourMap::sequential).back(), (Colour{0xfd, 0xe7, 0x25, 255}));
    EXPECT_EQ(palette(ColourMap::diverging).front(), (Colour{0x05, 0x30, 0x61, 255}));
    EXPECT_EQ(palette(ColourMap::diverging).back(), (Colour{0x67, 0x00, 0x1f, 255}));
}

TEST(Scale, PutsValuesWhereTheyBelong) {
    const Scale linear{ScaleKind::linear, -2, 6, 1};
    EXPECT_DOUBLE_EQ(linear.position(-2), 0);
    EXPECT_DOUBLE_EQ(linear.position(0), 0.25);
    EXPECT_DOUBLE_EQ(linear.position(100), 1);
    EXPECT_DOUBLE_EQ(linear.position(-100), 0);
    const Scale log{ScaleKind::log, 1e-3, 1e3, 1};
    EXPECT_DOUBLE_EQ(log.position(1), 0.5);
    EXPECT_NEAR(log.position(10), 4.0 / 6, 1e-15);
    EXPECT_DOUBLE_EQ(log.position(-10), log.position(10));
    EXPECT_DOUBLE_EQ(log.position(0), 0);
    // Linear up to 0.1, then a decade a step: 1 + 2 decades to 10.
    const Scale symlog{ScaleKind::symlog, -10, 10, 0.1};
    EXPECT_DOUBLE_EQ(symlog.position(0), 0.5);
    EXPECT_NEAR(symlog.position(0.1), 0.5 + 0.5 / 3, 1e-15);
    EXPECT_NEAR(symlog.position(-1), 0.5 - 0.5 * 2 / 3, 1e-15);
    EXPECT_NEAR(symlog.position(0.05), 0.5 + 0.25 / 3, 1e-15);
}

TEST(Scale, ValueAtIsTheWayBack) {
    for (const Scale& scale : {Scale{ScaleKind::linear, -2, 6, 1}, Scale{ScaleKind::log, 1e-3, 1e3, 1},
                               Scale{ScaleKind::symlog, -10, 40, 0.1}}) {
        for (double at = 0; at <= 1; at += 0.125)
            EXPECT_NEAR(scale.position(scale.value_at(at)), at, 1e-12) << to_string(scale.kind);
    }
}

TEST(Scale, EmptyRangesHaveAMiddle) {
    const Scale scale{ScaleKind::linear, 3, 3, 1};
    EXPECT_EQ(scale.position(3), 0.5);
    EXPECT_EQ(scale.position(2), 0);
    EXPECT_EQ(scale.position(4), 1);
}

TEST(Kinds, DifferInColourAndInPattern) {
    std::set<std::uint32_t> colours;
    std::set<std::array<std::uint8_t, 8>> patterns;
    for (const KindStyle& style : all_kinds()) {
        EXPECT_EQ(&style, &kind_style(style.kind));
        if (style.kind == Kind::finite) continue;
        EXPECT_TRUE(colours.insert(packed(style.first)).second) << style.name;
        EXPECT_TRUE(colours.insert(packed(style.second)).second) << style.name;
        EXPECT_TRUE(patterns.insert(style.pattern).second) << style.name;
        // A pattern of one colour is none.
        std::set<std::uint32_t> seen;
        for (int y = 0; y < 8; ++y)
            for (int x = 0; x < 8; ++x) seen.insert(packed(colour_of(style.kind, x, y)));
        EXPECT_EQ(seen.size(), 2u) << style.name;
    }
    for (const ColourMapInfo& map : all_colour_maps())
        for (const Colour& colour : palette(map.map)) EXPECT_FALSE(colours.contains(packed(colour)));
}

TEST(Kinds, TheWorseIsShown) {
    const auto of = [](auto... kinds) { return KindFlags((flag_of(kinds) | ...)); };
    EXPECT_EQ(worst_of(of(Kind::finite, Kind::nan, Kind::plus_infinity, Kind::unwritten)), Kind::nan);
    EXPECT_EQ(worst_of(of(Kind::finite, Kind::unwritten, Kind::masked)), Kind::unwritten);
    EXPECT_EQ(worst_of(of(Kind::finite, Kind::minus_infinity)), Kind::minus_infinity);
    EXPECT_EQ(worst_of(of(Kind::finite, Kind::masked, Kind::indifferent)), Kind::finite);
    EXPECT_EQ(worst_of(of(Kind::masked, Kind::not_captured)), Kind::masked);
    EXPECT_EQ(worst_of(of(Kind::finite, Kind::inherited)), Kind::inherited);
    EXPECT_EQ(worst_of(of(Kind::finite, Kind::inherited), false), Kind::inherited);
    // An element of the stage itself is beyond its budget.
    EXPECT_EQ(worst_of(of(Kind::finite, Kind::inherited), true), Kind::finite);
    EXPECT_EQ(worst_of(of(Kind::masked, Kind::inherited), true), Kind::inherited);
    EXPECT_EQ(worst_of(of(Kind::not_judged, Kind::not_captured)), Kind::not_judged);
    EXPECT_EQ(worst_of(0), Kind::not_captured);
}

}  // namespace
}  // namespace tilescope::test
