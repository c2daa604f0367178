#include "oracle/solve/place_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <vector>

#include "oracle/solve/effort.h"

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
    spend(4 * std::ssize(places));
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
    spend(32 * std::ssize(sides));
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

/// Bits of a whole number, of which round ones are likelier: its odd part, and how often it is doubled.
int bits_of_round(std::int64_t number) {
    if (number == 0) return 1;
    const auto magnitude = std::uint64_t(std::abs(number));
    const auto bits_of = [](std::uint64_t n) { return 2 * int(std::bit_width(n)) - 1; };
    const int doubled = std::countr_zero(magnitude);
    return bits_of(magnitude >> doubled) + bits_of(std::uint64_t(doubled) + 1);
}

int bits_of(const PlaceCondition& condition) {
    constexpr int of_end = 1;
    int bits = 4 + int(condition.coordinate / 4) + (condition.is_from_end ? of_end : 0);
    if (condition.period > 0) bits += 1 + bits_of_round(condition.period);
    const bool is_one = condition.last == condition.first + 1;
    const std::int64_t least = condition.period > 0 ? 0 : -unbounded;
    const std::int64_t most = condition.period > 0 ? condition.period : unbounded;
    if (condition.first != least) bits += 1 + bits_of_round(condition.first);
    if (condition.last != most && !is_one) bits += 1 + bits_of_round(condition.last);
    return bits;
}

/// A condition, or two, and the bits of it.
struct ShortRule {
    PlaceRule rule;
    int bits = 0;
};

/// The same counted from the end, where places are seen up to there.
std::optional<PlaceCondition> from_end(const PlaceCondition& condition, const SidesOfValues& sides,
                                       std::int64_t end) {
    if (condition.period > 0 || end == 0 || sides.rbegin()->first < end - 1) return std::nullopt;
    // What does not reach the end is not counted from there.
    if (condition.first != -unbounded && condition.last != unbounded) return std::nullopt;
    PlaceCondition counted = condition;
    counted.is_from_end = true;
    if (counted.first != -unbounded) counted.first -= end;
    if (counted.last != unbounded) counted.last -= end;
    return counted;
}

/// The shortest condition on a coordinate that nearly all places keep to.
void try_coordinate(std::size_t coordinate, const SidesOfValues& sides, std::int64_t most_wrong,
                    std::int64_t end, std::optional<ShortRule>& best) {
    std::int64_t wrong = 0;
    for (const auto& [value, of_value] : sides) wrong += of_value.wrong_if_split();
    if (wrong > most_wrong) return;
    const auto offer = [&](const PlaceCondition& condition) {
        const int bits = bits_of(condition);
        if (!best || bits < best->bits) best = {{{condition}}, bits};
    };
    const PlaceCondition whole = range_of(coordinate, 0, sides);
    if (wrong_of(whole, sides) <= most_wrong) {
        offer(whole);
        if (const auto counted = from_end(whole, sides, end)) offer(*counted);
    }
    for (const std::int64_t period : periods) {
        if (!repeats(period, sides)) continue;
        const PlaceCondition condition = range_of(coordinate, period, sides);
        if (wrong_of(condition, sides) <= most_wrong) offer(condition);
    }
}

std::optional<ShortRule> one_condition(std::span<const LabelledPlace> places, std::size_t coordinates,
                                       std::int64_t most_wrong, const PlaceEnds& ends) {
    std::optional<ShortRule> best;
    for (std::size_t x = 0; x < coordinates; ++x)
        try_coordinate(x, sides_of(places, x), most_wrong, ends[x], best);
    return best;
}

/// Conditions on a coordinate that nearly every place inside keeps and not every one outside: what is inside by two
/// conditions is inside by each. Values of the coordinate that at most `few` places inside have may be of those that are
/// wrong.
std::vector<PlaceCondition> covers_of(std::span<const LabelledPlace> places, std::size_t coordinate,
                                      std::int64_t few, std::int64_t end) {
    const SidesOfValues sides = sides_of(places, coordinate);
    std::vector<PlaceCondition> covers;
    const auto add = [&](std::int64_t period) {
        SidesOfValues rests;
        for (const auto& [value, of_value] : sides)
            rests[period > 0 ? value % period : value].inside += of_value.inside;
        for (auto& [rest, of_rest] : rests) of_rest.outside = of_rest.inside <= few ? few + 1 : 0;
        const PlaceCondition cover = range_of(coordinate, period, rests);
        if (std::ranges::all_of(sides, [&](const auto& value) { return cover.holds(value.first); })) return;
        const auto counted = from_end(cover, sides, end);
        covers.push_back(counted && bits_of(*counted) < bits_of(cover) ? *counted : cover);
    };
    add(0);
    for (const std::int64_t period : periods)
        if (repeats(period, sides)) add(period);
    return covers;
}

/// The shortest rule of two conditions.
std::optional<ShortRule> two_conditions(std::span<const LabelledPlace> places, std::size_t coordinates,
                                        std::int64_t most_wrong, std::int64_t few, const PlaceEnds& ends) {
    std::optional<ShortRule> best;
    for (std::size_t x = 0; x < coordinates; ++x) {
        for (const PlaceCondition& cover : covers_of(places, x, few, ends[x])) {
            if (best && bits_of(cover) >= best->bits) continue;
            std::vector<LabelledPlace> covered;
            for (const LabelledPlace& place : places)
                if (cover.holds(place.at[x], ends[x])) covered.push_back(place);
            // Where each value has few places inside, nothing may be left of them.
            if (covered.empty()) continue;
            const auto second = one_condition(covered, coordinates, most_wrong, ends);
            if (!second) continue;
            const int bits = bits_of(cover) + second->bits;
            if (!best || bits < best->bits) best = {{{cover, second->rule.conditions.front()}}, bits};
        }
    }
    return best;
}

/// Some of very many places inside and outside, of every rest.
std::vector<LabelledPlace> some_of(std::span<const LabelledPlace> places) {
    constexpr std::int64_t most = 6'000;
    const auto insides = std::ranges::count(places, true, &LabelledPlace::inside);
    const std::int64_t step_inside = insides / most | 1;
    const std::int64_t step_outside = (std::ssize(places) - insides) / most | 1;
    std::int64_t inside = 0;
    std::int64_t outside = 0;
    std::vector<LabelledPlace> some;
    for (const LabelledPlace& place : places)
        if (place.inside ? inside++ % step_inside == 0 : outside++ % step_outside == 0) some.push_back(place);
    return some;
}

bool is_right(const PlaceRule& rule, std::span<const LabelledPlace> places, std::int64_t most_wrong,
              const PlaceEnds& ends) {
    const auto wrong = std::ranges::count_if(places, [&](const LabelledPlace& place) {
        const bool holds = std::ranges::all_of(rule.conditions, [&](const PlaceCondition& condition) {
            return condition.holds(place.at[condition.coordinate], ends[condition.coordinate]);
        });
        return holds != place.inside;
    });
    return wrong <= most_wrong;
}

}  // namespace

bool PlaceCondition::holds(std::int64_t x, std::int64_t end) const {
    const std::int64_t value = is_from_end ? x - end : period > 0 ? x % period : x;
    return value >= first && value < last;
}

std::string PlaceCondition::text(std::string_view name, std::string_view end_name) const {
    if (name.starts_with('(')) return std::string(holds(1) ? "" : "not ") + std::string(name);
    const std::string value = period > 0 ? fmt::format("{} % {}", name, period) : std::string(name);
    const bool from_begin = first == (period > 0 ? 0 : -unbounded);
    const bool to_end = last == (period > 0 ? period : unbounded);
    const auto bound = [&](std::int64_t number) {
        if (!is_from_end) return std::to_string(number);
        return number == 0 ? std::string(end_name) : fmt::format("{} - {}", end_name, -number);
    };
    if (last == first + 1) return fmt::format("{} == {}", value, bound(first));
    if (to_end) return fmt::format("{} >= {}", value, bound(first));
    if (from_begin) return fmt::format("{} < {}", value, bound(last));
    return fmt::format("{} <= {} < {}", bound(first), value, bound(last));
}

std::string PlaceRule::text(std::span<const std::string_view> names) const {
    std::string text;
    for (const PlaceCondition& condition : conditions)
        text += (text.empty() ? "" : " and ") + condition.text(names[condition.coordinate]);
    return text;
}

std::optional<PlaceRule> find_place_rule(std::span<const LabelledPlace> places, std::size_t coordinates,
                                         std::int64_t most_wrong, const PlaceEnds& ends) {
    const auto insides = std::ranges::count(places, true, &LabelledPlace::inside);
    if (insides == 0 || insides == std::ssize(places)) return std::nullopt;
    if (const auto one = one_condition(places, coordinates, most_wrong, ends)) return one->rule;
    const std::vector<LabelledPlace> some = some_of(places);
    for (const std::int64_t few : std::set<std::int64_t>{0, most_wrong / 4}) {
        const auto two = two_conditions(some, coordinates, most_wrong, few, ends);
        if (two && is_right(two->rule, places, most_wrong, ends)) return two->rule;
    }
    return std::nullopt;
}

}  // namespace tilescope
