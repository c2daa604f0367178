#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "oracle/solve/curve.h"

namespace tilescope {

/// Share of points that has to lie on what is said of them.
inline constexpr double nearly_all = 0.98;

/// How far from a line of this slope a point of it may be.
double off_by(const CurvePoint& point, double slope);

/// How many x there are that differ by more than their digits.
std::size_t distinct_values(const std::vector<CurvePoint>& points);

/// A rule with its numbers as text.
struct NamedRule {
    CurveRule rule;
    std::string slope;
    std::string offset;
    int parameters = 1;
    bool is_round = true;
};

/// The shortest line that nearly all points lie on: a constant, a factor, an offset, or both; none where there is
/// none, and of fewer than four x.
std::vector<NamedRule> fitted_lines(const std::vector<CurvePoint>& points,
                                    const std::vector<KnownNumber>& known);

}  // namespace tilescope
