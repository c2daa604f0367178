#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracle/causes/table.h"
#include "oracle/runs/places.h"

namespace tilescope {

/// A candidate without parameters.
std::vector<Candidate> always(Change change);

/// "-1.5", with six digits.
std::string digits(double value);
std::string digits(std::int64_t value);

/// Median; NaN of nothing.
double median_of(std::vector<double> values);

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
