#include "oracle/program/functions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "dump/schema/rounding.h"

namespace tilescope {

namespace {

constexpr double open = std::numeric_limits<double>::infinity();

double sigmoid(double x) {
    return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

double gelu(double x) {
    return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
}

double softplus(double x) {
    return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

/// A function, how steep it is at most where it neither rises nor falls everywhere, and what a kernel may be off by beside
/// that: relative to the result, to the result and the argument, and absolute, in units of u.
struct FunctionBound {
    double (*at)(double);
    double steepest;  ///< 0: it rises or falls everywhere, and its ends bound it
    double relative;
    double relative_to_argument;
    double absolute;
    double least;  ///< argument from which on it is defined
};

constexpr std::array<FunctionBound, 15> bounds = {{
    {[](double x) { return std::exp(x); }, 0, 4, 2, 0, -open},
    {[](double x) { return std::exp2(x); }, 0, 4, 0, 0, -open},
    {[](double x) { return std::log(x); }, 0, 6, 0, 6.03, 0},
    // Or that of base e, times log2(e).
    {[](double x) { return std::log2(x); }, 0, 8, 0, 8.7, 0},
    {[](double x) { return std::sqrt(x); }, 0, 4, 0, 0, 0},
    {[](double x) { return 1 / std::sqrt(x); }, 0, 6, 0, 0, 0},
    {[](double x) { return std::tanh(x); }, 0, 4, 0, 0, -open},
    // Or (1 + tanh(x / 2)) / 2, which loses what is left of 1.
    {sigmoid, 0, 10, 2, 2, -open},
    {[](double x) { return x * sigmoid(x); }, 1.0999, 11, 2, 0, -open},
    // 1 + erf(x) loses what is left of 1, which x multiplies.
    {gelu, 1.1290, 4, 0, 0, -open},
    {[](double x) { return std::max(x, 0.0); }, 0, 0, 0, 0, -open},
    {softplus, 0, 6, 0, 6, -open},
    {[](double x) { return std::abs(x); }, 1, 0, 0, 0, -open},
    {[](double x) { return std::nearbyint(x); }, 0, 0, 0, 0, -open},
    {[](double x) { return std::trunc(x); }, 0, 0, 0, 0, -open},
}};

/// Of a function that is 0 at 0, at most x, and rises from there on; NaN for others.
double rising_inverse(double (*function)(double), double y) {
    if (!(y > 0) || !std::isfinite(y)) return std::nan("");
    double low = y;
    double high = 2 * y + 1;
    while (high - low > 1e-15 * high) {
        const double middle = (low + high) / 2;
        if (middle == low || middle == high) break;
        (function(middle) < y ? low : high) = middle;
    }
    return high;
}

}  // namespace

Uncertain function_of(ProgramFunction function, Uncertain x) {
    const FunctionBound& f = bounds[std::size_t(function)];
    const double value = f.at(x.value);
    if (std::isinf(x.error)) return {value, open};
    if (std::isnan(value)) return {value, 0};
    double carried = 0;
    if (x.error > 0 && std::isfinite(x.value)) {
        if (x.value - x.error < f.least) return {value, open};
        carried = f.steepest > 0 ? f.steepest * x.error
                                 : std::max(std::abs(f.at(x.value + x.error) - value),
                                            std::abs(value - f.at(x.value - x.error)));
    }
    if (!std::isfinite(value)) return {value, std::isnan(carried) || carried > 0 ? open : 0};
    const double reach = std::isfinite(x.value) ? std::abs(x.value) : 0;
    // exp(-x) of what it is made of may be infinite.
    const bool may_vanish =
        (function == ProgramFunction::sigmoid || function == ProgramFunction::silu) && x.value < -80;
    if (may_vanish) carried += std::abs(value);
    // What 1 + erf(x), or 1 + tanh(x / 2), lost of 1 is multiplied with x.
    const double lost_of_one = function == ProgramFunction::gelu   ? 3 * reach
                               : function == ProgramFunction::silu ? 2 * reach
                                                                   : 0;
    const double rounded =
        std::abs(value) * (f.relative + f.relative_to_argument * reach) + f.absolute + lost_of_one;
    return {value, carried + u_f32 * rounded + (rounded > 0 ? flush_to_zero : 0)};
}

Uncertain inverse_of(ProgramFunction function, Uncertain y, double near) {
    if (function == ProgramFunction::round) return {y.value, y.error + 0.5};
    if (function == ProgramFunction::trunc) return {y.value, y.error + 1};
    const auto inverse = [&](double of) {
        switch (function) {
            case ProgramFunction::exp:
                return std::log(of);
            case ProgramFunction::exp2:
                return std::log2(of);
            case ProgramFunction::log:
                return std::exp(of);
            case ProgramFunction::log2:
                return std::exp2(of);
            case ProgramFunction::sqrt:
                return of < 0 ? std::nan("") : of * of;
            case ProgramFunction::rsqrt:
                return of < 0 ? std::nan("") : 1 / (of * of);
            case ProgramFunction::tanh:
                return std::atanh(of);
            case ProgramFunction::sigmoid:
                return std::log(of / (1 - of));
            case ProgramFunction::softplus:
                return of > 30 ? of : std::log(std::expm1(of));
            case ProgramFunction::relu:
                return of > 0 ? of : std::nan("");
            case ProgramFunction::abs:
                return of < 0 ? std::nan("") : std::copysign(of, near);
            case ProgramFunction::silu:
            case ProgramFunction::gelu:
                return rising_inverse(bounds[std::size_t(function)].at, of);
            case ProgramFunction::round:
            case ProgramFunction::trunc:
                break;
        }
        return std::nan("");
    };
    const double x = inverse(y.value);
    const double off =
        std::max(std::abs(inverse(y.value - y.error) - x), std::abs(inverse(y.value + y.error) - x));
    if (std::isnan(x) || std::isnan(off)) return {x, open};
    return {x, off + 4 * u_f32 * std::abs(x)};
}

Uncertain in_range(Uncertain x) {
    constexpr double most = std::numeric_limits<float>::max();
    const double magnitude = std::abs(x.value);
    if (!(magnitude + x.error > most) || !std::isfinite(magnitude) || std::isinf(x.error)) return x;
    if (magnitude - x.error > most * (1 + u_f32)) return {std::copysign(open, x.value), 0};
    return {x.value, open};
}

Uncertain exponential_of_difference(ProgramFunction function, Uncertain x, Uncertain y) {
    Uncertain difference = added(x, negative(y));
    if (std::isfinite(difference.value)) {
        // In the units of the other base the difference is rounded even where it is not here.
        if (difference.error == 0) difference.error = u_f32 * std::abs(difference.value);
        difference.error += gamma(3, u_f32) * (std::abs(x.value) + std::abs(y.value));
    }
    if (function == ProgramFunction::exp2) {
        difference.value *= std::numbers::ln2;
        difference.error *= std::numbers::ln2;
    }
    Uncertain result = exponential(difference);
    // Less than half of the smallest number is 0 in any kernel.
    if (result.value + result.error < std::ldexp(1.0, -150)) return {0, 0};
    if (difference.value != -open) result.error += flush_to_zero;
    return result;
}

Uncertain exponential_up_to(ProgramFunction function, Uncertain x, double most) {
    const Uncertain whole = function_of(function, x);
    if (!std::isfinite(x.value) || !std::isfinite(most) || x.value + x.error <= most) return whole;
    const Uncertain at_most = function_of(function, {most, 0});
    const Uncertain at_least = function_of(function, {x.value - x.error, 0});
    const double high = at_most.value + at_most.error;
    const double low = at_least.value - at_least.error;
    return {whole.value, std::max(high - whole.value, whole.value - low)};
}

namespace {

/// Whether an exact number is multiplied with a power of two, and float32 holds what comes of it.
bool is_scaled(Uncertain x, Uncertain y) {
    if (x.error != 0 || y.error != 0) return false;
    const auto is_power = [](double number) {
        int exponent = 0;
        return std::abs(std::frexp(number, &exponent)) == 0.5;
    };
    const double product = x.value * y.value;
    return std::isfinite(product) && double(float(product)) == product &&
           (is_power(x.value) || is_power(y.value));
}

}  // namespace

Uncertain product_of(Uncertain x, Uncertain y) {
    // Nothing is rounded where nothing is multiplied, as a whole number where a real one is asked for: 1.0 * i.
    if (y.value == 1 && y.error == 0) return x;
    if (x.value == 1 && x.error == 0) return y;
    Uncertain product = multiplied(x, y);
    // Nor by a power of two, whatever else it is multiplied with before.
    if (is_scaled(x, y)) product.error = 0;
    if (x.value != 0 && y.value != 0 && std::isfinite(product.value)) product.error += flush_to_zero;
    return product;
}

Uncertain quotient_of(Uncertain x, Uncertain y) {
    Uncertain quotient = divided(x, y);
    if (x.value != 0 && std::isfinite(quotient.value))
        quotient.error += 3 * u_f32 * std::abs(quotient.value) + flush_to_zero;
    return quotient;
}

Uncertain with_other_bits(ProgramOp op, Uncertain x, std::uint32_t bits) {
    const auto bits_at = [](double number) { return std::bit_cast<std::uint32_t>(float(number)); };
    const auto changed = [&](double number) {
        const std::uint32_t own = bits_at(number);
        return double(std::bit_cast<float>(op == ProgramOp::exclusive ? own ^ bits : own & bits));
    };
    const Uncertain middle{changed(x.value), 0};
    if (!std::isfinite(x.value)) return middle;
    if (bits == 0) return {middle.value, op == ProgramOp::exclusive ? x.error : 0};
    if (!std::isfinite(x.error)) return {middle.value, open};
    const double low = changed(x.value - x.error);
    const double high = changed(x.value + x.error);
    // Numbers that agree in all bits from the last one that is changed on agree in what is made of them, or in what is added. The last
    // bits of all may be cut off: that rounds to zero.
    const auto from_last_of = [](std::uint32_t some) {
        return ~((std::uint32_t(1) << std::countr_zero(some)) - 1);
    };
    const std::uint32_t others = op == ProgramOp::masked ? ~bits & from_last_of(bits) : bits;
    const std::uint32_t differing = bits_at(x.value - x.error) ^ bits_at(x.value + x.error);
    if (others != 0 && (differing & from_last_of(others)) != 0) return {middle.value, open};
    const double off = std::max(std::abs(low - middle.value), std::abs(high - middle.value));
    return {middle.value, std::isfinite(off) ? off : open};
}

Uncertain cast_to(Dtype dtype, Uncertain x) {
    if (dtype == Dtype::f32 || std::isnan(x.value)) return x;
    const auto rounded = [&](double number) { return double(decode(dtype, encode(dtype, number))); };
    if (x.error == 0) return {rounded(x.value), 0};
    const double low = rounded(x.value - x.error);
    const double high = rounded(x.value + x.error);
    if (low == high) return {low, 0};
    if (!std::isfinite(low) || !std::isfinite(high)) return {rounded(x.value), open};
    return {(low + high) / 2, (high - low) / 2};
}

NumberGrid grid_of(const DtypeInfo& info) {
    NumberGrid grid;
    grid.name = info.name;
    grid.digits = info.significand_bits;
    grid.least_exponent = info.min_exponent;
    grid.largest = double(info.max_finite);
    grid.saturates = !info.has_infinity;
    return grid;
}

}  // namespace tilescope
