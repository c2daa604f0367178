#pragma once

#include <optional>

#include "oracle/program/build.h"
#include "oracle/solve/curve.h"

namespace tilescope {

/// The curve in the words of the language, of node x, whose numbers lie between two; nullopt: it has none for it.
std::optional<int> curve_node(ProgramBuilder& build, int x, const Curve& curve, double least, double most);

/// What it takes to say it.
double bits_of_curve(const Curve& curve);

/// The numbers of each narrow type.
std::vector<NumberGrid> grids_of_types();

/// Rounded to nearest in each narrow type, and to the steps that int8 makes of numbers up to 1.
const std::vector<Curve>& casts();
/// What exponents of one base are multiplied with to be those of the other.
const std::vector<KnownNumber>& factors_of_bases();

}  // namespace tilescope
