#include "oracle/describe/real.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dump/schema/rounding.h"

namespace tilescope {

namespace {

constexpr double unknown = std::numeric_limits<double>::infinity();

bool is_unknown(Uncertain x) {
    return std::isinf(x.error);
}

/// With the rounding of an operation of so many float32 roundings.
Uncertain rounded(double value, double error, bool is_open, double roundings = 1) {
    if (is_open) return {value, unknown};
    if (!std::isfinite(value)) return {value, 0};
    return {value, error + roundings * u_f32 * std::abs(value)};
}

}  // namespace

Uncertain added(Uncertain x, Uncertain y) {
    // Nothing is rounded where nothing is added.
    if (x.value == 0 && x.error == 0) return y;
    if (y.value == 0 && y.error == 0) return x;
    return rounded(x.value + y.value, x.error + y.error, is_unknown(x) || is_unknown(y));
}

Uncertain multiplied(Uncertain x, Uncertain y) {
    const double error = std::abs(x.value) * y.error + (std::abs(y.value) + y.error) * x.error;
    return rounded(x.value * y.value, error, is_unknown(x) || is_unknown(y));
}

Uncertain divided(Uncertain x, Uncertain y) {
    const double value = x.value / y.value;
    const double least = std::abs(y.value) - y.error;
    const bool is_open = is_unknown(x) || (y.error > 0 && !(least > 0));
    return rounded(value, (x.error + std::abs(value) * y.error) / least, is_open);
}

Uncertain larger(Uncertain x, Uncertain y) {
    if (x.value - x.error > y.value + y.error) return x;
    if (y.value - y.error > x.value + x.error) return y;
    return {std::max(x.value, y.value), std::max(x.error, y.error)};
}

Uncertain negative(Uncertain x) {
    return {-x.value, x.error};
}

Uncertain exponential(Uncertain x) {
    const double value = std::exp(x.value);
    // Kernels take exp2 of the product with log2(e), which is rounded.
    const double growth = std::isinf(x.value) ? 0 : std::expm1(x.error + 2 * u_f32 * std::abs(x.value));
    return rounded(value, value * growth, is_unknown(x), 4);
}

Uncertain logarithm(Uncertain x) {
    const double least = x.value - x.error;
    return rounded(std::log(x.value), x.error / least, is_unknown(x) || (x.error > 0 && !(least > 0)), 4);
}

}  // namespace tilescope
