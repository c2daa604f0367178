#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace tilescope {

/// What an element is.
enum class Kind : std::uint8_t {
    finite,
    nan,
    plus_infinity,
    minus_infinity,
    masked,              ///< hidden by the mask, and as it is to be there
    unwritten,           ///< no thread wrote it
    not_captured,        ///< its tile was not recorded
    indifferent,         ///< nothing can be expected, because what it is computed from is NaN
    should_be_infinite,  ///< finite, where an infinity is expected: a score that the mask should have hidden
    inherited,           ///< agrees with the stages before it, which are wrong
    not_judged           ///< recorded, and not judged, or not yet
};
inline constexpr int kind_count = 11;

/// Kinds that were seen, a bit each.
using KindFlags = std::uint16_t;
static_assert(kind_count <= 16);

constexpr KindFlags flag_of(Kind kind) {
    return KindFlags(1u << unsigned(kind));
}
/// The kind to show of those that were seen: what is worse, first; not_captured for none.
Kind worst_of(KindFlags flags);
/// The same where it is known whether some finite value is beyond its budget: that is worse than an inherited
/// one.
Kind worst_of(KindFlags flags, bool beyond_budget);

struct Colour {
    std::uint8_t r = 0;
    std::uint8_t g = 0;
    std::uint8_t b = 0;
    std::uint8_t a = 255;
    bool operator==(const Colour&) const = default;
};

/// As the four bytes lie in an image: r first.
constexpr std::uint32_t packed(Colour c) {
    return c.r | std::uint32_t(c.g) << 8 | std::uint32_t(c.b) << 16 | std::uint32_t(c.a) << 24;
}

enum class ColourMap : std::uint8_t {
    sequential,  ///< dark to bright
    diverging,   ///< blue below the middle, red above
    budget       ///< blue below the middle, from yellow to red above, with a step in the middle
};
inline constexpr int colour_map_count = 3;

struct ColourMapInfo {
    ColourMap map;
    std::string_view name;
};
const std::array<ColourMapInfo, colour_map_count>& all_colour_maps();

using Palette = std::array<Colour, 256>;
/// Anchors of ColorBrewer, viridis and cividis, interpolated in the Oklab space (Ottosson, A perceptual color
/// space for image processing, 2020).
const Palette& palette(ColourMap map);

enum class ScaleKind : std::uint8_t { linear, log, symlog };
inline constexpr int scale_kind_count = 3;
std::string_view to_string(ScaleKind kind);

/// Which value has which colour.
struct Scale {
    ScaleKind kind = ScaleKind::linear;
    double low = 0;  ///< positive where the kind is log
    double high = 1;
    double threshold = 1;  ///< symlog: linear up to this magnitude

    /// From 0 at `low` to 1 at `high`; clamped.
    double position(double value) const;
    /// The value at a position: for the ticks of a legend.
    double value_at(double position) const;
    bool operator==(const Scale&) const = default;
};
Colour colour_of(double value, const Scale& scale, ColourMap map);

/// Two colours in a pattern of pixels, so that kinds differ without colour, too.
struct KindStyle {
    Kind kind;
    std::string_view name;
    Colour first;
    Colour second;
    std::array<std::uint8_t, 8> pattern;  ///< a row a byte, the leftmost pixel in bit 7: `first` where 1
};
const std::array<KindStyle, kind_count>& all_kinds();
const KindStyle& kind_style(Kind kind);
/// x and y are pixels of the image.
Colour colour_of(Kind kind, int x, int y);

}  // namespace tilescope
