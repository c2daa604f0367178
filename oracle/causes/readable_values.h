#pragma once

#include <functional>
#include <string>
#include <vector>

#include "oracle/causes/curves.h"

namespace tilescope {

/// A value on its way through a stage that the dump tells of each element: what it should be and what it was, and the
/// replay of a kernel that passes it through a curve.
struct ReadableValue {
    std::string name;  ///< in formulas: "s", "x"
    std::string told;  ///< which value of the stage it is; empty: its result as it is dumped
    std::function<std::vector<CurvePoint>(const Evidence&)> points;
    std::function<Change(const Curve&)> change;
};

/// The variable in these units becomes what the curve makes of it.
Change passes(Variable variable, double unit, const Curve& curve);

/// The stage's result, as it is dumped and in natural units.
std::vector<ReadableValue> readable_results(const Evidence& evidence);
/// What a score is the sum of, or what its cap takes.
std::vector<ReadableValue> readable_score_parts(const Evidence& evidence);
/// What the exponential takes: s - m, by the unit of its base.
std::vector<ReadableValue> readable_arguments(const Evidence& evidence);

/// A maximum that may stay behind, as a kernel has it that looks at each row by itself.
void settle_maxima(const SearchedTile& site, Estimate& m);

}  // namespace tilescope
