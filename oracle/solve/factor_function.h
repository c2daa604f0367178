#pragma once

#include <string>
#include <utility>
#include <vector>

#include "oracle/solve/curve.h"

namespace tilescope {

/// A sum of products a b, as they should be, and what is there in its place.
struct SumOfProducts {
    std::vector<std::pair<double, double>> factors;  ///< a and b of each product, the scale of the sum in b
    double got = 0;
    double error = 0;  ///< above 0
};

/// Functions f with which nearly all of the sums are those of f(a) b, shortest first; none where the sums are too few.
/// Bounds of their domains are looked for among simple numbers, then among all. `variable` is the name of a.
std::vector<Curve> functions_of_factor(const std::vector<SumOfProducts>& sums, const std::string& variable);

}  // namespace tilescope
