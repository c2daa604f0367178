#include "oracle/heatmap/colour.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilescope {

namespace {

constexpr std::array<ColourMapInfo, colour_map_count> maps = {{
    {ColourMap::sequential, "sequential"},
    {ColourMap::diverging, "diverging"},
    {ColourMap::budget, "budget"},
}};

constexpr std::array<std::string_view, scale_kind_count> scale_names = {"linear", "log", "symlog"};

constexpr Colour rgb(std::uint32_t hex) {
    return {std::uint8_t(hex >> 16), std::uint8_t(hex >> 8), std::uint8_t(hex), 255};
}

// viridis (van der Walt and Smith, matplotlib 1.5), ten of its colours.
constexpr std::array<std::uint32_t, 10> viridis = {0x440154, 0x482878, 0x3e4989, 0x31688e, 0x26828e,
                                                   0x1f9e89, 0x35b779, 0x6ece58, 0xb5de2b, 0xfde725};
// RdBu of ColorBrewer (Brewer, colorbrewer2.org), from blue to red.
constexpr std::array<std::uint32_t, 11> blue_to_red = {0x053061, 0x2166ac, 0x4393c3, 0x92c5de,
                                                       0xd1e5f0, 0xf7f7f7, 0xfddbc7, 0xf4a582,
                                                       0xd6604d, 0xb2182b, 0x67001f};
// The dark end of cividis (Nunez, Anderton and Renslow, PLOS ONE 13, 2018).
constexpr std::array<std::uint32_t, 2> within_budget = {0x00204d, 0x414d6b};
// YlOrRd of ColorBrewer up to its most saturated red: the worst is the strongest, not the palest.
constexpr std::array<std::uint32_t, 5> over_budget = {0xfed976, 0xfeb24c, 0xfd8d3c, 0xfc4e2a, 0xe31a1c};

struct Oklab {
    double lightness;
    double a;
    double b;
};

double to_linear(std::uint8_t channel) {
    const double c = channel / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

std::uint8_t from_linear(double c) {
    const double encoded = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
    return std::uint8_t(std::lround(255 * std::clamp(encoded, 0.0, 1.0)));
}

Oklab to_oklab(Colour colour) {
    const double r = to_linear(colour.r);
    const double g = to_linear(colour.g);
    const double b = to_linear(colour.b);
    const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
    return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
            1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
            0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

Colour from_oklab(const Oklab& lab) {
    const auto cubed = [](double x) { return x * x * x; };
    const double l = cubed(lab.lightness + 0.3963377774 * lab.a + 0.2158037573 * lab.b);
    const double m = cubed(lab.lightness - 0.1055613458 * lab.a - 0.0638541728 * lab.b);
    const double s = cubed(lab.lightness - 0.0894841775 * lab.a - 1.2914855480 * lab.b);
    return {from_linear(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
            from_linear(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
            from_linear(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s), 255};
}

/// The first anchor at 0 and the last at 1.
Colour between(std::span<const std::uint32_t> anchors, double at) {
    const double scaled = at * double(anchors.size() - 1);
    const std::size_t index = std::min(std::size_t(scaled), anchors.size() - 2);
    const double weight = scaled - double(index);
    const Oklab from = to_oklab(rgb(anchors[index]));
    const Oklab to = to_oklab(rgb(anchors[index + 1]));
    const auto mix = [&](double x, double y) { return x + weight * (y - x); };
    return from_oklab({mix(from.lightness, to.lightness), mix(from.a, to.a), mix(from.b, to.b)});
}

void fill(std::span<const std::uint32_t> anchors, std::span<Colour> colours) {
    for (std::size_t i = 0; i < colours.size(); ++i)
        colours[i] = between(anchors, double(i) / double(colours.size() - 1));
}

std::array<Palette, colour_map_count> make_palettes() {
    std::array<Palette, colour_map_count> palettes;
    fill(viridis, palettes[0]);
    fill(blue_to_red, palettes[1]);
    const std::span<Colour> budget = palettes[2];
    fill(within_budget, budget.first(budget.size() / 2));
    fill(over_budget, budget.last(budget.size() / 2));
    return palettes;
}

// The colours of kinds are in none of the maps, and no pattern is another one moved: what looks alike to some eyes differs in it.
constexpr std::array<KindStyle, kind_count> kind_styles = {{
    {Kind::finite, "finite", rgb(0x808080), rgb(0x808080), {}},
    {Kind::nan, "NaN", rgb(0xff2bd6), rgb(0x9e007e), {0x88, 0x11, 0x22, 0x44, 0x88, 0x11, 0x22, 0x44}},
    {Kind::plus_infinity,
     "+Inf",
     rgb(0x00ff5e),
     rgb(0x007a2d),
     {0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa}},
    {Kind::minus_infinity,
     "-Inf",
     rgb(0x00e1ff),
     rgb(0x00606e),
     {0xff, 0x00, 0xff, 0x00, 0xff, 0x00, 0xff, 0x00}},
    {Kind::masked, "masked", rgb(0x363b45), rgb(0x22252c), {0x80, 0x00, 0x08, 0x00, 0x80, 0x00, 0x08, 0x00}},
    {Kind::unwritten,
     "unwritten",
     rgb(0xffffff),
     rgb(0x000000),
     {0xcc, 0xcc, 0x33, 0x33, 0xcc, 0xcc, 0x33, 0x33}},
    {Kind::not_captured,
     "not captured",
     rgb(0x2a2018),
     rgb(0x15120f),
     {0x81, 0x42, 0x24, 0x18, 0x18, 0x24, 0x42, 0x81}},
    {Kind::indifferent,
     "nothing expected",
     rgb(0x8d8d96),
     rgb(0x5d5d66),
     {0xe0, 0x00, 0x00, 0x00, 0x0e, 0x00, 0x00, 0x00}},
    {Kind::should_be_infinite,
     "should be Inf",
     rgb(0xff3b30),
     rgb(0x7a0f08),
     {0x18, 0x18, 0x18, 0xff, 0xff, 0x18, 0x18, 0x18}},
    {Kind::inherited,
     "inherited",
     rgb(0x8a76bd),
     rgb(0x5e4e8c),
     {0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x01}},
    {Kind::not_judged,
     "not judged",
     rgb(0x4c5a55),
     rgb(0x1d2624),
     {0x00, 0x66, 0x66, 0x00, 0x00, 0x66, 0x66, 0x00}},
}};

constexpr std::array<Kind, kind_count> worst_first = {
    Kind::nan,         Kind::unwritten, Kind::plus_infinity, Kind::minus_infinity, Kind::should_be_infinite,
    Kind::inherited,   Kind::finite,    Kind::indifferent,   Kind::masked,         Kind::not_judged,
    Kind::not_captured};

double symlog(double value, double threshold) {
    const double scaled = std::abs(value) / threshold;
    return std::copysign(scaled <= 1 ? scaled : 1 + std::log10(scaled), value);
}

double positive(double value) {
    return std::max(value, double(std::numeric_limits<float>::min()));
}

}  // namespace

Kind worst_of(KindFlags flags) {
    for (const Kind kind : worst_first) {
        if ((flags & flag_of(kind)) != 0) return kind;
    }
    return Kind::not_captured;
}

Kind worst_of(KindFlags flags, bool beyond_budget) {
    const bool hides = beyond_budget && (flags & flag_of(Kind::finite)) != 0;
    return worst_of(hides ? KindFlags(flags & ~flag_of(Kind::inherited)) : flags);
}

const std::array<ColourMapInfo, colour_map_count>& all_colour_maps() {
    return maps;
}

const Palette& palette(ColourMap map) {
    static const std::array<Palette, colour_map_count> palettes = make_palettes();
    return palettes[static_cast<std::size_t>(map)];
}

std::string_view to_string(ScaleKind kind) {
    return scale_names[static_cast<std::size_t>(kind)];
}

double Scale::position(double value) const {
    const auto share = [](double x, double from, double to) {
        if (!(to > from)) return x < from ? 0.0 : x > from ? 1.0 : 0.5;
        return std::clamp((x - from) / (to - from), 0.0, 1.0);
    };
    switch (kind) {
        case ScaleKind::log:
            return share(std::log10(positive(std::abs(value))), std::log10(positive(low)),
                         std::log10(positive(high)));
        case ScaleKind::symlog:
            return share(symlog(value, positive(threshold)), symlog(low, positive(threshold)),
                         symlog(high, positive(threshold)));
        case ScaleKind::linear:
            break;
    }
    return share(value, low, high);
}

double Scale::value_at(double at) const {
    const auto between_ends = [&](double from, double to) { return from + at * (to - from); };
    switch (kind) {
        case ScaleKind::log:
            return std::pow(10, between_ends(std::log10(positive(low)), std::log10(positive(high))));
        case ScaleKind::symlog: {
            const double x =
                between_ends(symlog(low, positive(threshold)), symlog(high, positive(threshold)));
            const double scaled = std::abs(x) <= 1 ? std::abs(x) : std::pow(10, std::abs(x) - 1);
            return std::copysign(scaled * positive(threshold), x);
        }
        case ScaleKind::linear:
            break;
    }
    return between_ends(low, high);
}

Colour colour_of(double value, const Scale& scale, ColourMap map) {
    return palette(map)[std::size_t(scale.position(value) * 255 + 0.5)];
}

const std::array<KindStyle, kind_count>& all_kinds() {
    return kind_styles;
}

const KindStyle& kind_style(Kind kind) {
    return kind_styles[static_cast<std::size_t>(kind)];
}

Colour colour_of(Kind kind, int x, int y) {
    const KindStyle& style = kind_style(kind);
    const unsigned row = style.pattern[std::size_t(y & 7)];
    return (row >> (7 - (x & 7)) & 1) != 0 ? style.first : style.second;
}

}  // namespace tilescope
