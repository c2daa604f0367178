#include "oracle/identify/place_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

namespace tilescope {

namespace {

constexpr std::int64_t unbounded = std::numeric_limits<std::int32_t>::max();
/// Periods that tiles, warps, lanes and their registers have, the likeliest first.
constexpr std::array<std::int64_t, 12> periods = {2, 4, 8, 16, 32, 64, 128, 3, 5, 6, 12, 24};

/// How many places with a value of a coordinate are inside and how many outside.
struct Sides {
    std::int64_t inside = 0;
    std::int64_t outside = 0;

    std::int64_t wrong_if_split() const { return std::min(inside, outside); }
};
using SidesOfValues = std::map<std::int64_t, Sides>;

/// Of the places that `within` keeps, nullopt where the coordinate does not tell their sides apart.
template <class Within>
std::optional<SidesOfValues> sides_of(std::span<const LabelledPlace> places, std::size_t coordinate,
                                      std::int64_t most_wrong, const Within& within) {
    SidesOfValues sides;
    for (const LabelledPlace& place : places) {
        if (!within(place)) continue;
        Sides& of_value = sides[place.at[coordinate]];
        ++(place.inside ? of_value.inside : of_value.outside);
    }
    std::int64_t wrong = 0;
    for (const auto& [value, of_value] : sides) wrong += of_value.wrong_if_split();
    if (wrong > most_wrong) return std::nullopt;
    return sides;
}

std::int64_t wrong_of(const PlaceCondition& condition, const SidesOfValues& sides) {
    std::int64_t wrong = 0;
    for (const auto& [value, of_value] : sides)
        wrong += condition.holds(value) ? of_value.outside : of_value.inside;
    return wrong;
}

/// The values that are inside, of a period or all, as a range: from the first to the last of them, wider where
/// nothing contradicts.
PlaceCondition range_of(std::size_t coordinate, std::int64_t period, const SidesOfValues& sides) {
    std::map<std::int64_t, Sides> rests;
    for (const auto& [value, of_value] : sides) {
        Sides& rest = rests[period > 0 ? value % period : value];
        rest.inside += of_value.inside;
        rest.outside += of_value.outside;
    }
    const auto is_inside = [](const auto& rest) { return rest.second.inside > rest.second.outside; };
    const auto first = std::ranges::find_if(rests, is_inside);
    PlaceCondition condition{coordinate, period, 0, period > 0 ? period : unbounded};
    if (first == rests.end()) return {coordinate, period, 0, 0};
    auto last = first;
    for (auto rest = first; rest != rests.end(); ++rest)
        if (is_inside(*rest)) last = rest;
    if (first != rests.begin()) condition.first = first->first;
    if (std::next(last) != rests.end()) condition.last = last->first + 1;
    if (period == 0 && first == rests.begin()) condition.first = -unbounded;
    return condition;
}

std::optional<PlaceCondition> condition_of(std::size_t coordinate, const SidesOfValues& sides,
                                           std::int64_t most_wrong) {
    const PlaceCondition whole = range_of(coordinate, 0, sides);
    if (wrong_of(whole, sides) <= most_wrong) return whole;
    for (const std::int64_t period : periods) {
        // Of a period that is seen once a range says as much.
        const auto [least, most] = std::pair(sides.begin()->first, sides.rbegin()->first);
        if (least < 0 || most < period) continue;
        const PlaceCondition condition = range_of(coordinate, period, sides);
        if (wrong_of(condition, sides) <= most_wrong) return condition;
    }
    return std::nullopt;
}

/// Whether the value of the coordinate is one that some place inside has.
class SeenInside {
 public:
    SeenInside(std::span<const LabelledPlace> places, std::size_t coordinate) : coordinate_(coordinate) {
        for (const LabelledPlace& place : places) {
            Sides& sides = values_[place.at[coordinate]];
            ++(place.inside ? sides.inside : sides.outside);
        }
    }
    bool operator()(const LabelledPlace& place) const { return values_.at(place.at[coordinate_]).inside > 0; }
    bool is_all() const {
        return std::ranges::all_of(values_, [](const auto& value) { return value.second.inside > 0; });
    }
    /// The values as sides: those with any place inside, and the others.
    SidesOfValues sides() const {
        SidesOfValues sides;
        for (const auto& [value, of_value] : values_)
            sides[value] = of_value.inside > 0 ? Sides{of_value.inside, 0} : Sides{0, of_value.outside};
        return sides;
    }

 private:
    std::size_t coordinate_;
    SidesOfValues values_;
};

}  // namespace

bool PlaceCondition::holds(std::int64_t x) const {
    const std::int64_t value = period > 0 ? x % period : x;
    return value >= first && value < last;
}

std::string PlaceCondition::text(std::string_view name) const {
    const std::string value = period > 0 ? fmt::format("{} % {}", name, period) : std::string(name);
    const bool from_begin = first == (period > 0 ? 0 : -unbounded);
    const bool to_end = last == (period > 0 ? period : unbounded);
    if (last == first + 1) return fmt::format("{} == {}", value, first);
    if (to_end) return fmt::format("{} >= {}", value, first);
    if (from_begin) return fmt::format("{} < {}", value, last);
    return fmt::format("{} <= {} < {}", first, value, last);
}

bool PlaceRule::holds(std::span<const std::int32_t> at) const {
    return std::ranges::all_of(conditions, [&](const PlaceCondition& condition) {
        return condition.holds(at[condition.coordinate]);
    });
}

std::string PlaceRule::text(std::span<const std::string_view> names) const {
    std::string text;
    for (const PlaceCondition& condition : conditions)
        text += (text.empty() ? "" : " and ") + condition.text(names[condition.coordinate]);
    return text;
}

std::optional<PlaceRule> find_place_rule(std::span<const LabelledPlace> places, std::size_t coordinates,
                                         std::int64_t most_wrong) {
    const auto insides = std::ranges::count(places, true, &LabelledPlace::inside);
    if (insides == 0 || insides == std::ssize(places)) return std::nullopt;
    const auto all = [](const LabelledPlace&) { return true; };
    for (std::size_t x = 0; x < coordinates; ++x) {
        const auto sides = sides_of(places, x, most_wrong, all);
        if (!sides) continue;
        if (const auto condition = condition_of(x, *sides, most_wrong)) return PlaceRule{{*condition}};
    }
    // What is inside by two conditions is inside by each: the values of the first are all that any place inside has.
    for (std::size_t x = 0; x < coordinates; ++x) {
        const SeenInside inside(places, x);
        if (inside.is_all()) continue;
        const auto first = condition_of(x, inside.sides(), 0);
        if (!first) continue;
        for (std::size_t y = 0; y < coordinates; ++y) {
            if (y == x) continue;
            const auto sides = sides_of(places, y, most_wrong, inside);
            if (!sides) continue;
            if (const auto second = condition_of(y, *sides, most_wrong)) return PlaceRule{{*first, *second}};
        }
    }
    return std::nullopt;
}

}  // namespace tilescope
