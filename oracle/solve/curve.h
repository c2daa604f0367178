#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracle/solve/number.h"
#include "oracle/solve/number_grid.h"

namespace tilescope {

/// An element: what it should be, by how much that may be off, and what is there.
struct CurvePoint {
    double x = 0;
    double error = 0;
    double got = 0;
    bool wrong = false;
};

/// Of which x a curve changes the value.
struct CurveDomain {
    enum class Kind : std::uint8_t { all, above, below, within, beyond, bit_set };
    Kind kind = Kind::all;
    double at = 0;  ///< x > at, x < at, |x| < at, |x| > at
    int bit = 0;    ///< of x as a float32

    bool contains(double x) const {
        switch (kind) {
            case Kind::above:
                return x > at;
            case Kind::below:
                return x < at;
            case Kind::within:
                return std::abs(x) < at;
            case Kind::beyond:
                return std::abs(x) > at;
            case Kind::bit_set:
                return std::bit_cast<std::uint32_t>(float(x)) >> bit & 1;
            case Kind::all:
                break;
        }
        return true;
    }
};

/// What x becomes: slope x + offset, other bits of the float32, or a number of a grid.
struct CurveRule {
    bool is_line = true;
    bool mirrored = false;  ///< the line is that of |x|, and the result has the sign of x
    double slope = 1;
    double offset = 0;
    std::uint32_t keep = 0xffffffff;  ///< (bits & keep | set) ^ flip
    std::uint32_t set = 0;
    std::uint32_t flip = 0;
    std::optional<NumberGrid> grid = {};

    double of(double x) const;
};

/// A function of one number that differs from the identity by one rule, in a part of its domain.
struct Curve {
    CurveDomain domain;
    CurveRule rule;
    int parameters = 1;
    bool is_round = true;  ///< its numbers have few digits or a name
    std::string formula;   ///< of a variable, "max(x, -0.5)"

    double of(double x) const { return domain.contains(x) ? rule.of(x) : x; }
};

/// Other bits of the float32, of the last ones of its exponent and the first ones of its digits: cut off, set or inverted.
std::vector<CurveRule> simple_bit_rules();

/// The rule in this domain, with what it costs and its text.
Curve curve_of(const CurveDomain& domain, const CurveRule& rule, const std::string& variable);

/// The curves that nearly all wrong points lie on, shortest first; none where the points are too few, too
/// alike or too uncertain to tell. Right points tell where a curve does not apply; some may lie off it, since a
/// mistake need not be made everywhere. `variable` is the name of x in formulas.
std::vector<Curve> curves_through(const std::vector<CurvePoint>& points,
                                  const std::vector<KnownNumber>& known, const std::string& variable);

/// The curves that round to a grid which nearly all wrong points were rounded to.
std::vector<Curve> roundings_through(const std::vector<CurvePoint>& points,
                                     const std::vector<NumberGrid>& known);

}  // namespace tilescope
