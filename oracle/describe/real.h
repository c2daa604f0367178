#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "dump/schema/rounding.h"

namespace tilescope {

/// A number that may be off by `error`.
struct Uncertain {
    double value = 0;
    double error = 0;
};

/// With what an operation of so many float32 roundings adds; `is_open`: nothing is known of it.
inline Uncertain rounded(double value, double error, bool is_open, double roundings = 1) {
    if (is_open) return {value, std::numeric_limits<double>::infinity()};
    if (!std::isfinite(value)) return {value, 0};
    return {value, error + roundings * u_f32 * std::abs(value)};
}

// What one operation of a formula makes of what its operands may be off by, rounded to float32 each time. Errors of what is
// not finite are 0. Source: Higham, lemma 3.1, to first order.

/// Whether it is x + y to the last digit, and a number of float32. Source: Knuth, The Art of Computer Programming, volume 2, 4.2.2, theorem B.
inline bool is_exact_sum(double x, double y, double sum) {
    const double of_y = sum - x;
    const double lost = (x - (sum - of_y)) + (y - of_y);
    return lost == 0 && double(float(sum)) == sum;
}

inline Uncertain added(Uncertain x, Uncertain y) {
    // Nothing is rounded where nothing is added.
    if (x.value == 0 && x.error == 0) return y;
    if (y.value == 0 && y.error == 0) return x;
    const double sum = x.value + y.value;
    const double error = x.error + y.error;
    if (error == 0 && is_exact_sum(x.value, y.value, sum)) return {sum, 0};
    return rounded(sum, error, std::isinf(x.error) || std::isinf(y.error));
}

inline Uncertain multiplied(Uncertain x, Uncertain y) {
    const double error = std::abs(x.value) * y.error + (std::abs(y.value) + y.error) * x.error;
    return rounded(x.value * y.value, error, std::isinf(x.error) || std::isinf(y.error));
}

Uncertain divided(Uncertain x, Uncertain y);

/// Of the larger one, or of both where either may be it.
inline Uncertain larger(Uncertain x, Uncertain y) {
    if (x.value - x.error > y.value + y.error) return x;
    if (y.value - y.error > x.value + x.error) return y;
    return {std::max(x.value, y.value), std::max(x.error, y.error)};
}

inline Uncertain negative(Uncertain x) {
    return {-x.value, x.error};
}

Uncertain exponential(Uncertain x);
Uncertain logarithm(Uncertain x);

}  // namespace tilescope
