#include "oracle/solve/factor_function.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

using FactorKind = CurveDomain::Kind;
using Sums = std::vector<SumOfProducts>;

constexpr std::size_t fewest_sums = 24;
/// Fewer will do where each is off by far more than its error.
constexpr std::int64_t fewest_far_off = 12;
constexpr double fitting_share = 0.98;

double sum_with(const SumOfProducts& sum, const Curve& curve) {
    spend(16 * std::ssize(sum.factors));
    double total = 0;
    for (const auto& [a, b] : sum.factors) total += curve.of(a) * b;
    return total;
}

bool fits(const Sums& sums, const Curve& curve) {
    const auto most_off = std::int64_t((1 - fitting_share) * double(sums.size()));
    std::int64_t off = 0;
    for (const SumOfProducts& sum : sums) {
        off += !(std::abs(sum_with(sum, curve) - sum.got) <= 2 * sum.error);
        if (off > most_off) return false;
    }
    return true;
}

bool are_enough(const Sums& sums) {
    const auto is_far_off = [](const SumOfProducts& sum) {
        double healthy = 0;
        for (const auto& [a, b] : sum.factors) healthy += a * b;
        return std::abs(sum.got - healthy) > 64 * sum.error;
    };
    return sums.size() >= fewest_sums || std::ranges::count_if(sums, is_far_off) >= fewest_far_off;
}

/// The line that the products of a domain have, by least squares, and how well the sums are known with it.
struct FittedLine {
    CurveRule rule;
    double slope_error = 0;
    double offset_error = 0;
    double residual = std::numeric_limits<double>::infinity();  ///< mean square, in errors
};

FittedLine line_in(const Sums& sums, const CurveDomain& domain, bool mirrored) {
    double xx = 0, xy = 0, yy = 0, xr = 0, yr = 0, rr = 0;
    for (const SumOfProducts& sum : sums) {
        spend(16 * std::ssize(sum.factors));
        double rest = sum.got;
        double x = 0;
        double y = 0;
        for (const auto& [a, b] : sum.factors) {
            if (!domain.contains(a)) {
                rest -= a * b;
                continue;
            }
            x += a * b;
            y += mirrored ? std::copysign(1.0, a) * b : b;
        }
        const double weight = 1 / (sum.error * sum.error);
        xx += weight * x * x;
        xy += weight * x * y;
        yy += weight * y * y;
        xr += weight * x * rest;
        yr += weight * y * rest;
        rr += weight * rest * rest;
    }
    FittedLine line;
    const double spread = xx * yy - xy * xy;
    if (!(spread > 1e-12 * xx * yy)) return line;
    line.rule.mirrored = mirrored;
    line.rule.slope = (xr * yy - yr * xy) / spread;
    line.rule.offset = (yr * xx - xr * xy) / spread;
    line.slope_error = 3 * std::sqrt(yy / spread);
    line.offset_error = 3 * std::sqrt(xx / spread);
    line.residual = (rr - line.rule.slope * xr - line.rule.offset * yr) / double(sums.size());
    return line;
}

/// Residuals above this are no rounding.
constexpr double most_residual = 4;

/// Every few of them: what these contradict the others need not be asked.
Sums some_of(const Sums& sums) {
    constexpr std::size_t few = 32;
    Sums some;
    for (std::size_t i = 0; i < sums.size(); i += sums.size() / few + 1) some.push_back(sums[i]);
    return some;
}

/// The curve with the numbers as simple as their errors leave open, if the sums are those of it.
std::optional<Curve> curve_in(const Sums& sums, const Sums& some, const CurveDomain& domain, bool mirrored,
                              const std::string& variable) {
    if (!(line_in(some, domain, mirrored).residual < most_residual)) return std::nullopt;
    const FittedLine line = line_in(sums, domain, mirrored);
    if (!(line.residual < most_residual)) return std::nullopt;
    CurveRule simple = line.rule;
    simple.slope = simplest_number(simple.slope, std::min(0.02, line.slope_error + 1e-6), {}).value;
    simple.offset = simplest_number(simple.offset, std::min(0.02, line.offset_error + 1e-9), {}).value;
    // Where the line meets the domain's end it may be meant to.
    CurveRule joined = simple;
    joined.offset = (1 - simple.slope) * std::abs(domain.at);
    if (domain.kind == FactorKind::below) joined.offset = -joined.offset;
    const bool is_simple =
        simple.offset == 0 || std::abs(joined.offset - simple.offset) > 4 * line.offset_error;
    for (const CurveRule& rule : {is_simple ? simple : joined, simple, line.rule}) {
        if (rule.slope == 1 && rule.offset == 0) return std::nullopt;
        const Curve curve = curve_of(domain, rule, variable);
        if (fits(sums, curve)) return curve;
    }
    return std::nullopt;
}

/// Of the factors, the largest without the signs, and some between it and 0.
std::vector<double> sizes_of(const Sums& sums) {
    std::vector<double> sizes;
    for (const SumOfProducts& sum : sums)
        for (const auto& [a, b] : sum.factors)
            if (a != 0 && std::isfinite(a)) sizes.push_back(std::abs(a));
    std::ranges::sort(sizes);
    return sizes;
}

CurveDomain bounded(FactorKind kind, double size) {
    return {kind, kind == FactorKind::below ? -size : size};
}

struct BoundedKind {
    FactorKind kind;
    bool mirrored;
};
constexpr std::array<BoundedKind, 6> bounded_kinds = {{{FactorKind::above, false},
                                                       {FactorKind::below, false},
                                                       {FactorKind::within, false},
                                                       {FactorKind::beyond, false},
                                                       {FactorKind::within, true},
                                                       {FactorKind::beyond, true}}};

/// The same line from where it meets what is unchanged: the sums that are wrong tell no bound where all their terms are
/// beyond it.
std::optional<Curve> from_meeting_point(const Sums& sums, const CurveDomain& domain, const CurveRule& rule,
                                        const std::string& variable) {
    const double meets = std::abs(rule.offset / (1 - rule.slope));
    if (!std::isfinite(meets) || meets == 0 || meets == std::abs(domain.at)) return std::nullopt;
    // A bound that somebody wrote has few digits.
    const double simple = simplest_number(meets, 0.01 * meets, {}).value;
    if (std::abs(simple - meets) > 1e-6 * meets) return std::nullopt;
    const Curve curve = curve_of(bounded(domain.kind, meets), rule, variable);
    return fits(sums, curve) ? std::optional(curve) : std::nullopt;
}

/// Mean square of what the sums are off by, in errors.
double residual_of_right(const Sums& sums) {
    double residual = 0;
    for (const SumOfProducts& sum : sums) {
        double off = sum.got;
        for (const auto& [a, b] : sum.factors) off -= a * b;
        residual += off * off / (sum.error * sum.error);
    }
    return residual / double(sums.size());
}

void add_bounded(const Sums& sums, const Sums& some, const std::string& variable,
                 std::vector<Curve>& curves) {
    const std::vector<double> sizes = sizes_of(sums);
    if (sizes.empty()) return;
    const double without = residual_of_right(some);
    for (const BoundedKind& of : bounded_kinds) {
        const auto residual_at = [&](const Sums& of_sums, double size) {
            return line_in(of_sums, bounded(of.kind, size), of.mirrored).residual;
        };
        const auto add = [&](double size) {
            const CurveDomain domain = bounded(of.kind, size);
            const auto curve = curve_in(sums, some, domain, of.mirrored, variable);
            if (!curve) return false;
            if (const auto met = from_meeting_point(sums, domain, curve->rule, variable))
                curves.push_back(*met);
            curves.push_back(*curve);
            return true;
        };
        if (std::ranges::any_of(simple_numbers_below(sizes.back()), add)) continue;
        // The bound of the least residual, between two of its neighbours.
        constexpr std::size_t count = 48;
        std::vector<double> tried;
        for (std::size_t i = 0; i < count; ++i) tried.push_back(sizes[sizes.size() * i / count]);
        tried.push_back(sizes.back());
        std::size_t best = 0;
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < tried.size(); ++i) {
            const double residual = residual_at(some, tried[i]);
            if (residual < least) least = residual, best = i;
        }
        // Near the bound of a function most of what is off is explained.
        if (!(2 * least < without)) continue;
        double low = tried[best == 0 ? 0 : best - 1];
        double high = tried[std::min(best + 1, count)];
        for (int step = 0; step < 40; ++step) {
            // Between two neighbours every bound is the same.
            const auto next = std::ranges::upper_bound(sizes, low);
            if (next == sizes.end() || *next >= high) {
                low = high - 1e-6 * (high - low);
                break;
            }
            const double third = (high - low) / 3;
            if (residual_at(sums, low + third) < residual_at(sums, high - third)) {
                high -= third;
            } else {
                low += third;
            }
        }
        add(0.5 * (low + high));
    }
}

}  // namespace

std::vector<Curve> functions_of_factor(const Sums& sums, const std::string& variable) {
    std::vector<Curve> curves;
    if (!are_enough(sums)) return curves;
    const Sums some = some_of(sums);
    const auto add = [&](const CurveDomain& domain) {
        if (const auto curve = curve_in(sums, some, domain, false, variable)) curves.push_back(*curve);
    };
    add({FactorKind::below, 0});
    add({FactorKind::above, 0});
    if (!curves.empty()) return curves;
    add_bounded(sums, some, variable, curves);
    if (!curves.empty()) return curves;
    for (int bit = 23; bit >= 16; --bit) add({FactorKind::bit_set, 0, bit});
    for (const CurveRule& rule : simple_bit_rules())
        if (const Curve curve = curve_of({}, rule, variable); fits(sums, curve)) curves.push_back(curve);
    return curves;
}

}  // namespace tilescope
