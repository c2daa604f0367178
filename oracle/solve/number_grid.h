#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tilescope {

struct CurvePoint;

/// The numbers that a value may be rounded to: multiples of a step, or floats of so many binary digits.
struct NumberGrid {
    enum class Direction : std::uint8_t { to_nearest, toward_zero };

    std::string name;  ///< "int8", "e4m3"
    double step = 0;   ///< 0: floats
    std::string step_text;
    bool is_round = true;                                     ///< the step has few digits
    double least = -std::numeric_limits<double>::infinity();  ///< of the multiples
    double most = std::numeric_limits<double>::infinity();
    Direction direction = Direction::to_nearest;
    int digits = 0;          ///< of a float, with the leading one
    int least_exponent = 0;  ///< of the smallest normal float
    double largest = std::numeric_limits<double>::infinity();
    bool saturates = false;  ///< beyond the largest comes the largest, not infinity

    double rounded(double x) const;
    /// Of the numbers around x.
    double spacing_at(double x) const;
};

/// The grids that nearly all wrong points were rounded to: of those that are known, or multiples of a step that the
/// points tell, and from where on they are cut off. None where the points would lie on it by chance.
std::vector<NumberGrid> grids_of(const std::vector<CurvePoint>& points, const std::vector<NumberGrid>& known);

}  // namespace tilescope
