#include "oracle/solve/number.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace tilescope {

namespace {

/// To a multiple of this power of ten, as its digits are read.
double rounded_at(double value, double exponent) {
    // Powers below 1 are no binary numbers.
    const double power = std::pow(10, std::abs(exponent));
    return exponent < 0 ? std::round(value * power) / power : std::round(value / power) * power;
}

}  // namespace

KnownNumber simplest_number(double value, double uncertainty, const std::vector<KnownNumber>& known) {
    if (std::abs(value) <= uncertainty) return {"0", 0};
    const auto is = [&](double number) { return std::abs(value - number) <= uncertainty; };
    if (is(1)) return {"1", 1};
    // What leaves much open has no name.
    for (const KnownNumber& number : known)
        if (uncertainty <= 1e-3 * std::abs(value) && is(number.value)) return number;
    for (const double parts : {1.0, 2.0, 4.0, 8.0, 16.0, 10.0, 32.0, 64.0}) {
        const double number = std::round(value * parts) / parts;
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
        const double number = rounded_at(value, std::floor(std::log10(std::abs(value))) - decimals);
        if (is(number)) return {fmt::format("{:.6g}", number), number};
    }
    return {fmt::format("{:.6g}", value), value, false};
}

KnownNumber simplest_number_between(double low, double high) {
    const double middle = low / 2 + high / 2;
    const KnownNumber simple = simplest_number(middle, high / 2 - low / 2, {});
    if (simple.is_round || middle == 0) return simple;
    for (int decimals = 3; decimals < 9; ++decimals) {
        const double number = rounded_at(middle, std::floor(std::log10(std::abs(middle))) - decimals);
        if (number >= low && number <= high) return {fmt::format("{:.9g}", number), number, false};
    }
    return simple;
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
