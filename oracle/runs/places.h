#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tilescope {

/// Rows or columns of a tile at regular places: `count` of every `period`, from `first` on. Period 0: they do
/// not repeat.
struct Places {
    std::int64_t period = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;

    bool contains(std::int64_t i) const {
        const std::int64_t at = period > 0 ? i % period : i;
        return at >= first && at < first + count;
    }
    bool operator==(const Places&) const = default;
};

/// The simplest places among `length` that are exactly those of `set`; nullopt for none and for others.
std::optional<Places> places_of(const std::vector<bool>& set);

/// "16-63", "8-15 of every 16".
std::string to_string(const Places& places);

struct NumbersTold {
    std::string text;
    bool is_whole = true;  ///< it tells all of them
};

/// "3", "2-5", "0, 8, 16, 24" or, of more, "0, 2, 4, 6, 8, 10, ...".
NumbersTold range_of(const std::set<std::int64_t>& numbers);

}  // namespace tilescope
