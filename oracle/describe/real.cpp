#include "oracle/describe/real.h"

#include <cmath>

namespace tilescope {

Uncertain divided(Uncertain x, Uncertain y) {
    const double value = x.value / y.value;
    const double least = std::abs(y.value) - y.error;
    const bool is_open = std::isinf(x.error) || (y.error > 0 && !(least > 0));
    return rounded(value, (x.error + std::abs(value) * y.error) / least, is_open);
}

Uncertain exponential(Uncertain x) {
    const double value = std::exp(x.value);
    // Kernels take exp2 of the product with log2(e), which is rounded.
    const double off = std::isinf(x.value) ? 0 : x.error + 2 * u_f32 * std::abs(x.value);
    // What is far off may be far below what its exponential can be.
    const double growth = off < 1 ? value * std::expm1(off) : std::exp(x.value + off) - value;
    const bool may_be_finite = std::isinf(value) && std::isfinite(std::exp(x.value - off));
    return rounded(value, growth, std::isinf(x.error) || std::isinf(growth) || may_be_finite, 4);
}

Uncertain logarithm(Uncertain x) {
    const double least = x.value - x.error;
    return rounded(std::log(x.value), x.error / least, std::isinf(x.error) || (x.error > 0 && !(least > 0)),
                   4);
}

}  // namespace tilescope
