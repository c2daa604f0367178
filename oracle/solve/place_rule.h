#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilescope {

/// A place has at most so many coordinates.
inline constexpr std::size_t most_coordinates = 12;

/// Where an element is, and on which side of the rule that is looked for. Those that may be on either are left out.
struct LabelledPlace {
    std::array<std::int32_t, most_coordinates> at{};
    bool inside = false;
};

/// "first <= x < last" of a coordinate, of its rest by a period, or of its distance from an end.
struct PlaceCondition {
    std::size_t coordinate = 0;
    std::int64_t period = 0;  ///< 0: x itself
    std::int64_t first = 0;
    std::int64_t last = 0;
    bool is_from_end = false;  ///< the bounds are added to the end, of x itself

    /// `end`: what x counts up to; any number where the bounds are not counted from it.
    bool holds(std::int64_t x, std::int64_t end = 0) const;
    /// "row % 8 >= 4", "key >= seqlen_kv - 8". Bounds that every x is within are left out. A name in parentheses,
    /// "(m > m_old)", is true where x is 1.
    std::string text(std::string_view name, std::string_view end_name = {}) const;
};

/// Conditions that hold together.
struct PlaceRule {
    std::vector<PlaceCondition> conditions;

    std::string text(std::span<const std::string_view> names) const;
};

/// What each coordinate counts up to, where a bound may be counted from there; 0: not.
using PlaceEnds = std::array<std::int64_t, most_coordinates>;

/// The shortest rule of one condition, or else of two, that is wrong for at most `most_wrong` of the places; nullopt
/// where there is none, and where no place is inside or none outside. Values of a coordinate that no place has
/// are free. `coordinates` of each place are looked at. Short is what takes few bits: no period, one bound, round numbers,
/// counted from the beginning, and one of the first coordinates.
std::optional<PlaceRule> find_place_rule(std::span<const LabelledPlace> places, std::size_t coordinates,
                                         std::int64_t most_wrong, const PlaceEnds& ends = {});

}  // namespace tilescope
