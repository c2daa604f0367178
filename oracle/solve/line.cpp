#include "oracle/solve/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

bool is_on(const std::vector<CurvePoint>& points, const CurveRule& line) {
    const auto on = std::ranges::count_if(points, [&](const CurvePoint& point) {
        return std::abs(point.got - line.of(point.x)) <= off_by(point, line.slope);
    });
    return double(on) >= nearly_all * double(points.size());
}

/// Sums that are weighted by how well each x is known.
struct LineSums {
    double weight = 0;
    double x = 0;
    double xx = 0;
    double got = 0;
    double x_got = 0;

    void add(const CurvePoint& point) {
        const double error = point.error + 1e-7 * (std::abs(point.got) + std::abs(point.x)) + 1e-12;
        const double w = 1 / (error * error);
        weight += w;
        x += w * point.x;
        xx += w * point.x * point.x;
        got += w * point.got;
        x_got += w * point.x * point.got;
    }
};

enum class Fitted : std::uint8_t { offset_alone, constant, factor, shift, both };

struct Line {
    double slope = 1;
    double offset = 0;
    double slope_error = 0;
    double offset_error = 0;
};

/// Least squares of the numbers that are fitted; the other one is what it is.
Line least_squares(const LineSums& s, Fitted fitted) {
    Line line;
    const double spread = s.xx * s.weight - s.x * s.x;
    switch (fitted) {
        case Fitted::constant:
            line.slope = 0;
            line.offset = s.got / s.weight;
            break;
        case Fitted::factor:
            line.slope = s.x_got / s.xx;
            break;
        case Fitted::offset_alone:
        case Fitted::shift:
            line.offset = (s.got - s.x) / s.weight;
            break;
        case Fitted::both:
            line.slope = (s.x_got * s.weight - s.x * s.got) / spread;
            line.offset = (s.got - line.slope * s.x) / s.weight;
            break;
    }
    // Errors are bounds, not deviations: five deviations of what is mostly a third of the bound.
    if (fitted != Fitted::shift && fitted != Fitted::constant)
        line.slope_error = 2 * std::sqrt(s.weight / std::max(spread, s.xx * 1e-12));
    if (fitted == Fitted::factor) line.slope_error = 2 / std::sqrt(s.xx);
    line.offset_error = 2 / std::sqrt(s.weight);
    if (fitted == Fitted::both)
        line.offset_error = 2 * std::sqrt(s.xx / std::max(spread, s.xx * s.weight * 1e-12));
    line.slope_error += 3e-7 * std::abs(line.slope);
    line.offset_error += 3e-7 * std::abs(line.offset);
    return line;
}

/// The line through the middle of what is to the left and to the right, which outliers do not move.
std::optional<Line> rough_line(std::vector<CurvePoint> points) {
    std::ranges::sort(points, {}, &CurvePoint::x);
    const std::size_t half = points.size() / 2;
    std::vector<double> slopes;
    for (std::size_t i = 0; i < half; ++i) {
        const CurvePoint& a = points[i];
        const CurvePoint& b = points[i + points.size() - half];
        if (b.x - a.x > 4 * (a.error + b.error)) slopes.push_back((b.got - a.got) / (b.x - a.x));
    }
    if (slopes.size() < 3) return std::nullopt;
    const auto middle_of = [](std::vector<double>& values) {
        const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
        std::nth_element(values.begin(), middle, values.end());
        return *middle;
    };
    Line line;
    line.slope = middle_of(slopes);
    std::vector<double> offsets;
    for (const CurvePoint& point : points) offsets.push_back(point.got - line.slope * point.x);
    line.offset = middle_of(offsets);
    return line;
}

std::optional<NamedRule> fitted_line(const std::vector<CurvePoint>& points, const LineSums& sums,
                                     Fitted fitted, const std::vector<KnownNumber>& known) {
    const Line line = least_squares(sums, fitted);
    if (!std::isfinite(line.slope) || !std::isfinite(line.offset)) return std::nullopt;
    NamedRule named;
    named.rule.slope = line.slope;
    named.rule.offset = line.offset;
    if (!is_on(points, named.rule)) return std::nullopt;
    const auto take = [&](double& value, std::string& name, double error, const auto& names) {
        const KnownNumber number = simplest_number(value, error, names);
        const double own = value;
        value = number.value;
        if (!is_on(points, named.rule)) value = own;
        const bool fits = value == number.value;
        name = fits ? number.name : fmt::format("{:.6g}", own);
        named.is_round = named.is_round && fits && number.is_round;
    };
    take(named.rule.slope, named.slope, line.slope_error, known);
    // What is added has no name: a quarter is no sm_scale there.
    take(named.rule.offset, named.offset, line.offset_error, std::vector<KnownNumber>());
    const bool scaled = named.rule.slope != 1 && named.rule.slope != 0;
    named.parameters = std::max(1, int(scaled) + int(named.rule.offset != 0));
    return named;
}

}  // namespace

double off_by(const CurvePoint& point, double slope) {
    // What is fitted to x has the digits of float64, of which little is left where the line crosses 0.
    return (std::abs(slope) + 1) * point.error + 4e-7 * std::abs(point.got) + 1e-12 * std::abs(point.x) +
           1e-30;
}

std::size_t distinct_values(const std::vector<CurvePoint>& points) {
    std::vector<double> values;
    for (const CurvePoint& point : points) values.push_back(point.x);
    std::ranges::sort(values);
    std::size_t count = 0;
    double last = -std::numeric_limits<double>::infinity();
    for (const double value : values) {
        if (value - last <= 1e-5 * std::abs(value)) continue;
        last = value;
        ++count;
    }
    return count;
}

std::vector<NamedRule> fitted_lines(const std::vector<CurvePoint>& points,
                                    const std::vector<KnownNumber>& known) {
    spend(128 * std::ssize(points));
    LineSums sums;
    const std::optional<Line> rough = rough_line(points);
    for (const CurvePoint& point : points) {
        if (rough && std::abs(point.got - rough->slope * point.x - rough->offset) >
                         2 * off_by(point, rough->slope) + 1e-3 * std::abs(point.got))
            continue;
        sums.add(point);
    }
    const std::size_t distinct = distinct_values(points);
    if (distinct < 4) return {};
    for (const Fitted fitted : {Fitted::constant, Fitted::factor, Fitted::shift, Fitted::both}) {
        if (fitted == Fitted::both && distinct < 8) break;
        if (auto line = fitted_line(points, sums, fitted, known)) return {*line};
    }
    return {};
}

}  // namespace tilescope
