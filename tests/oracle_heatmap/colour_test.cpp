// Colours: monotone, apart from each other, and where a scale says.

#include "oracle/heatmap/colour.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tilescope::test {
namespace {

/// Red, green and blue in linear light.
using Light = std::array<double, 3>;

Light light_of(Colour colour) {
    const auto linear = [](double c) {
        return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return {linear(colour.r / 255.0), linear(colour.g / 255.0), linear(colour.b / 255.0)};
}

/// Relative luminance as WCAG 2 defines it.
double luminance(Colour colour) {
    const Light light = light_of(colour);
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
}

/// What an eye without one kind of cones makes of light: Machado, Oliveira and Fernandes, A physiologically-based model for
/// simulation of color vision deficiency, 2009, at severity 1.
struct Vision {
    const char* name;
    std::array<Light, 3> rows;

    Light sees(const Light& light) const {
        Light seen = {};
        for (std::size_t i = 0; i < 3; ++i) {
            for (std::size_t j = 0; j < 3; ++j) seen[i] += rows[i][j] * light[j];
            seen[i] = std::clamp(seen[i], 0.0, 1.0);
        }
        return seen;
    }
};
const std::array<Vision, 4> visions = {{
    {"all cones", {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
    {"protanopia",
     {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}}},
    {"deuteranopia",
     {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}}},
    {"tritanopia",
     {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}}},
}};

/// Distance of two lights in CIE 1976 L*a*b*, in which 2.3 is just noticed (Mahy and others, 1994).
double distance(const Light& first, const Light& second) {
    const auto lab = [](const Light& v) {
        const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
        const double x = f((0.4124564 * v[0] + 0.3575761 * v[1] + 0.1804375 * v[2]) / 0.95047);
        const double y = f(0.2126729 * v[0] + 0.7151522 * v[1] + 0.0721750 * v[2]);
        const double z = f((0.0193339 * v[0] + 0.1191920 * v[1] + 0.9503041 * v[2]) / 1.08883);
        return Light{116 * y - 16, 500 * (x - y), 200 * (y - z)};
    };
    const Light a = lab(first);
    const Light b = lab(second);
    return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}
constexpr double just_noticed = 2.3;

/// The light of a pattern from so far that its pixels are not told apart.
Light from_afar(const KindStyle& style) {
    Light mean = {};
    for (int y = 0; y < 8; ++y) {
        for (int x = 0; x < 8; ++x) {
            const Light pixel = light_of(colour_of(style.kind, x, y));
            for (std::size_t i = 0; i < 3; ++i) mean[i] += pixel[i] / 64;
        }
    }
    return mean;
}

bool is_moved(const KindStyle& pattern, const KindStyle& other) {
    for (int dy = 0; dy < 8; ++dy) {
        for (int dx = 0; dx < 8; ++dx) {
            bool same = true;
            for (int y = 0; y < 8 && same; ++y) {
                const unsigned row = pattern.pattern[std::size_t((y + dy) & 7)];
                same = std::uint8_t(row << dx | row >> (8 - dx)) == other.pattern[std::size_t(y)];
            }
            if (same) return true;
        }
    }
    return false;
}

TEST(Kinds, AreToldApartWithoutAKindOfCones) {
    for (const Vision& vision : visions) {
        for (const KindStyle& one : all_kinds()) {
            if (one.kind == Kind::finite) continue;
            // The pattern itself is seen.
            EXPECT_GT(distance(vision.sees(light_of(one.first)), vision.sees(light_of(one.second))),
                      3 * just_noticed)
                << one.name << ", " << vision.name;
            for (const KindStyle& other : all_kinds()) {
                if (other.kind == Kind::finite || other.kind == one.kind || !is_moved(one, other)) continue;
                EXPECT_GT(distance(vision.sees(from_afar(one)), vision.sees(from_afar(other))),
                          10 * just_noticed)
                    << one.name << " and " << other.name << ", " << vision.name;
            }
        }
    }
}

TEST(Palette, TheHalvesOfBudgetAreToldApartWithoutAKindOfCones) {
    const Palette& colours = palette(ColourMap::budget);
    for (const Vision& vision : visions) {
        for (std::size_t i = 0; i < 128; i += 3) {
            for (std::size_t j = 128; j < 256; j += 3) {
                ASSERT_GT(distance(vision.sees(light_of(colours[i])), vision.sees(light_of(colours[j]))),
                          10 * just_noticed)
                    << i << " and " << j << ", " << vision.name;
            }
        }
    }
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

TEST(Palette, TheWorstIsTheMostSaturatedAndNotThePalest) {
    const Palette& colours = palette(ColourMap::budget);
    const auto saturation = [](const Colour& colour) {
        const auto [least, most] = std::minmax({colour.r, colour.g, colour.b});
        return double(most - least) / most;
    };
    for (std::size_t i = 129; i < 256; ++i) {
        EXPECT_GE(saturation(colours.back()), saturation(colours[i])) << i;
        EXPECT_LE(luminance(colours[i]), luminance(colours[i - 1]) + 1e-3) << i;
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
