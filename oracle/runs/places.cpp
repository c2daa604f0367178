#include "oracle/runs/places.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilescope {

std::optional<Places> places_of(const std::vector<bool>& set) {
    const auto length = std::int64_t(set.size());
    const auto is = [&](const Places& places) {
        for (std::int64_t i = 0; i < length; ++i)
            if (places.contains(i) != set[std::size_t(i)]) return false;
        return true;
    };
    const auto count = std::ranges::count(set, true);
    if (count == 0) return std::nullopt;
    const auto first = std::ranges::find(set, true) - set.begin();
    if (const Places once{0, first, count}; is(once)) return once;
    for (std::int64_t period = 2; period <= length / 2; ++period) {
        const auto in_period = std::count(set.begin(), set.begin() + std::ptrdiff_t(period), true);
        if (in_period == 0 || first >= period) continue;
        if (const Places places{period, first, in_period}; is(places)) return places;
    }
    return std::nullopt;
}

std::string to_string(const Places& places) {
    const std::int64_t last = places.first + places.count - 1;
    const std::string range =
        places.count == 1 ? fmt::format("{}", places.first) : fmt::format("{}-{}", places.first, last);
    return places.period == 0 ? range : fmt::format("{} of every {}", range, places.period);
}

NumbersTold range_of(const std::set<std::int64_t>& numbers) {
    const std::int64_t first = *numbers.begin();
    const std::int64_t last = *numbers.rbegin();
    if (first == last) return {std::to_string(first)};
    if (last - first + 1 == std::ssize(numbers)) return {fmt::format("{}-{}", first, last)};
    std::string text;
    std::size_t shown = 0;
    for (const std::int64_t number : numbers) {
        if (shown++ == 6) return {text + ", ...", false};
        text += (text.empty() ? "" : ", ") + std::to_string(number);
    }
    return {text};
}

}  // namespace tilescope
