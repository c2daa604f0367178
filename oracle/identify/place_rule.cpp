#include "oracle/identify/place_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <ranges>
#include <vector>

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

SidesOfValues sides_of(std::span<const LabelledPlace> places, std::size_t coordinate) {
    const auto value_of = [=](const LabelledPlace& place) { return place.at[coordinate]; };
    const auto [least, most] = std::ranges::minmax(places | std::views::transform(value_of));
    std::vector<Sides> dense(std::size_t(std::int64_t(most) - least) + 1);
    for (const LabelledPlace& place : places) {
        Sides& of_value = dense[std::size_t(value_of(place) - least)];
        ++(place.inside ? of_value.inside : of_value.outside);
    }
    SidesOfValues sides;
    for (std::size_t i = 0; i < dense.size(); ++i)
        if (dense[i].inside + dense[i].outside > 0)
            sides.emplace_hint(sides.end(), least + std::int64_t(i), dense[i]);
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
    // The first of what counts from 0 is one value, not a half line.
    const bool is_zero = first == rests.begin() && first->first == 0 && condition.last == 1;
    if (period == 0 && first == rests.begin() && !is_zero) condition.first = -unbounded;
    return condition;
}

/// Whether a period is seen more than once: otherwise a range says as much.
bool repeats(std::int64_t period, const SidesOfValues& sides) {
    return sides.begin()->first >= 0 && sides.rbegin()->first >= period;
}

std::optional<PlaceCondition> condition_of(std::size_t coordinate, const SidesOfValues& sides,
                                           std::int64_t most_wrong) {
    std::int64_t wrong = 0;
    for (const auto& [value, of_value] : sides) wrong += of_value.wrong_if_split();
    if (wrong > most_wrong) return std::nullopt;
    const PlaceCondition whole = range_of(coordinate, 0, sides);
    if (wrong_of(whole, sides) <= most_wrong) return whole;
    for (const std::int64_t period : periods) {
        if (!repeats(period, sides)) continue;
        const PlaceCondition condition = range_of(coordinate, period, sides);
        if (wrong_of(condition, sides) <= most_wrong) return condition;
    }
    return std::nullopt;
}

/// The condition that nearly all places keep to, of those that are looked at.
std::optional<PlaceCondition> one_condition(std::span<const LabelledPlace> places, std::size_t coordinates,
                                            std::int64_t most_wrong) {
    for (std::size_t x = 0; x < coordinates; ++x)
        if (const auto condition = condition_of(x, sides_of(places, x), most_wrong)) return condition;
    return std::nullopt;
}

/// Conditions on a coordinate that every place inside keeps and not every one outside: what is inside by two
/// conditions is inside by each.
std::vector<PlaceCondition> covers_of(std::span<const LabelledPlace> places, std::size_t coordinate) {
    const SidesOfValues sides = sides_of(places, coordinate);
    std::vector<PlaceCondition> covers;
    const auto add = [&](std::int64_t period) {
        SidesOfValues rests;
        for (const auto& [value, of_value] : sides)
            rests[period > 0 ? value % period : value].inside += of_value.inside;
        for (auto& [rest, of_rest] : rests) of_rest.outside = of_rest.inside == 0;
        const PlaceCondition cover = range_of(coordinate, period, rests);
        if (std::ranges::any_of(sides, [&](const auto& value) { return !cover.holds(value.first); }))
            covers.push_back(cover);
    };
    add(0);
    for (const std::int64_t period : periods)
        if (repeats(period, sides)) add(period);
    return covers;
}

}  // namespace

bool PlaceCondition::holds(std::int64_t x) const {
    const std::int64_t value = period > 0 ? x % period : x;
    return value >= first && value < last;
}

bool PlaceCondition::is_to_end() const {
    return period == 0 && last == unbounded && first > 0;
}

std::string PlaceCondition::text(std::string_view name) const {
    if (name.starts_with('(')) return std::string(holds(1) ? "" : "not ") + std::string(name);
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
    if (const auto condition = one_condition(places, coordinates, most_wrong)) return PlaceRule{{*condition}};
    for (std::size_t x = 0; x < coordinates; ++x) {
        for (const PlaceCondition& cover : covers_of(places, x)) {
            std::vector<LabelledPlace> covered;
            for (const LabelledPlace& place : places)
                if (cover.holds(place.at[x])) covered.push_back(place);
            if (const auto second = one_condition(covered, coordinates, most_wrong))
                return PlaceRule{{cover, *second}};
        }
    }
    return std::nullopt;
}

}  // namespace tilescope
