#include "oracle/solve/number.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace tilescope {

KnownNumber simplest_number(double value, double uncertainty, const std::vector<KnownNumber>& known) {
    if (std::abs(value) <= uncertainty) return {"0", 0};
    const auto is = [&](double number) { return std::abs(value - number) <= uncertainty; };
    if (is(1)) return {"1", 1};
    // What leaves much open has no name.
    for (const KnownNumber& number : known)
        if (uncertainty <= 1e-3 * std::abs(value) && is(number.value)) return number;
    for (const double step : {1.0, 0.5, 0.25, 0.125, 0.0625, 0.1, 0.03125, 0.015625}) {
        const double number = std::round(value / step) * step;
        if (number != 0 && std::abs(number) <= 64 && is(number))
            return {fmt::format("{:.6g}", number), number};
    }
    // Bounds of types, as 2^-14 of float16, stand among numbers that are written with as few digits.
    const double ten = std::pow(10, std::round(std::log10(std::abs(value))));
    const double two = std::exp2(std::round(std::log2(std::abs(value))));
    for (const double power : {ten, two}) {
        const double number = std::copysign(power, value);
        if (is(number)) return {fmt::format("{:.6g}", number), number};
    }
    for (int decimals = 0; decimals < 3; ++decimals) {
        const double step = std::pow(10, std::floor(std::log10(std::abs(value))) - decimals);
        const double number = std::round(value / step) * step;
        if (is(number)) return {fmt::format("{:.6g}", number), number};
    }
    return {fmt::format("{:.6g}", value), value, false};
}

double simple_number(double value, double uncertainty) {
    for (const double parts : {1.0, 2.0, 4.0}) {
        // No -0.
        const double simple = std::round(value * parts) / parts + 0.0;
        if (std::abs(value - simple) <= uncertainty) return simple;
    }
    return value;
}

std::vector<double> simple_numbers_below(double most) {
    std::set<double> numbers;
    for (const double step : {1.0, 0.5, 0.25, 0.125, 0.1, 0.0625, 0.05, 0.03125, 0.01})
        for (int n = 1; n <= 16 && n * step < most; ++n) numbers.insert(n * step);
    return {numbers.begin(), numbers.end()};
}

}  // namespace tilescope
