#pragma once

#include <optional>
#include <vector>

#include "oracle/solve/curve.h"

namespace tilescope {

/// got = the sum of coefficients times terms, within the error.
struct Equation {
    std::vector<double> terms;
    double got = 0;
    double error = 0;
};

/// The coefficients that nearly all equations agree on, each as simple as they leave open; nullopt where there
/// are none, or too few equations to tell. All equations have as many terms.
std::optional<std::vector<KnownNumber>> combination_of(const std::vector<Equation>& equations,
                                                       const std::vector<KnownNumber>& known);

/// "m + 0.5 * log l", of the names of the terms; "0" where every coefficient is.
std::string text_of_sum(const std::vector<KnownNumber>& coefficients, const std::vector<std::string>& names);

}  // namespace tilescope
