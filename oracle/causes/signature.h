#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

/// A candidate without parameters.
std::vector<Candidate> always(Change change);

/// "-1.5", with six digits.
std::string digits(double value);
std::string digits(std::int64_t value);

/// Median; NaN of nothing.
double median_of(std::vector<double> values);

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

/// Regular ways to take part of `length`: strides of lanes and the beginning.
std::vector<Places> parts_of(std::int64_t length);

/// `value` rounded to `dtype`.
double rounded_to(Dtype dtype, double value);

/// The estimate after a cast of value times `scale` to `dtype`; infinite beyond its range. Where its error
/// leaves open to which of two numbers it is rounded, both pass.
void round_to(Dtype dtype, double scale, Estimate& estimate);

/// P beyond the range of its type is the largest number of the type.
void cut_to_range(const SearchedTile& site, Estimate& p);

/// Whether the wrong elements that were dumped are numbers of `dtype`: at least four, and at most one in a
/// thousand that is none. An infinity is one where the expected value is beyond the type's range.
bool are_numbers_of(const Evidence& evidence, Dtype dtype);

}  // namespace tilescope
