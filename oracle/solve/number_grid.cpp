#include "oracle/solve/number_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "oracle/solve/effort.h"
#include "oracle/solve/line.h"

namespace tilescope {

namespace {

using Points = std::vector<CurvePoint>;

double tolerance(const CurvePoint& point) {
    return off_by(point, 0);
}

/// Whether the point was rounded to the grid, whatever its x may be off by.
bool is_rounded_to(const NumberGrid& grid, const CurvePoint& point) {
    return std::ranges::any_of(
        std::array{point.x, point.x - point.error, point.x + point.error}, [&](double x) {
            const double rounded = grid.rounded(x);
            return rounded == point.got || std::abs(rounded - point.got) <= tolerance(point);
        });
}

/// Whether nearly all points lie on the grid, and would not by chance: each says as many bits as there are numbers of
/// its own precision in one step.
bool is_grid_of(const Points& wrong, const NumberGrid& grid, double least_bits) {
    constexpr double most_of_one = 10;
    spend(48 * std::ssize(wrong));
    const auto most_off = std::int64_t((1 - nearly_all) * double(wrong.size()));
    std::int64_t off = 0;
    double bits = 0;
    for (const CurvePoint& point : wrong) {
        if (!is_rounded_to(grid, point) && ++off > most_off) return false;
        bits += std::clamp(std::log2(grid.spacing_at(point.got) / (2 * tolerance(point))), 0.0, most_of_one);
    }
    return bits >= least_bits;
}

// ---- multiples of a step

struct Known {
    double value = 0;
    double error = 0;
};

/// The steps that all but a few of the growing values are multiples of, where the first is `parts` of them.
std::optional<Known> step_of(const std::vector<Known>& values, int parts) {
    spend(24 * std::ssize(values));
    const auto most_off = std::int64_t((1 - nearly_all) * double(values.size()));
    double low = (values.front().value - values.front().error) / parts;
    double high = (values.front().value + values.front().error) / parts;
    std::int64_t off = 0;
    for (const auto& [value, error] : values) {
        const double fewest = std::ceil((value - error) / high);
        const double most = std::floor((value + error) / low);
        if (fewest > most && ++off > most_off) return std::nullopt;
        if (fewest != most) continue;
        low = std::max(low, (value - error) / most);
        high = std::min(high, (value + error) / most);
    }
    return Known{0.5 * (low + high), 0.5 * std::abs(high - low)};
}

void name_step(const Known& found, NumberGrid& grid) {
    const double parts = std::round(1 / found.value);
    const double error = found.error + 1e-7 * found.value;
    if (parts >= 1 && std::abs(1 / parts - found.value) <= error) {
        grid.step = 1 / parts;
        grid.step_text = fmt::format("1/{}", parts);
        return;
    }
    const KnownNumber number = simplest_number(found.value, error, {});
    grid.step = number.value;
    grid.step_text = number.name;
    grid.is_round = number.is_round;
}

/// From where on multiples are cut off: what is beyond, on either side. A side that does not show it is as the other one,
/// or as that of int8.
void bound(const Points& wrong, NumberGrid& grid) {
    double least = 0;
    double most = 0;
    for (const CurvePoint& point : wrong) {
        least = std::min(least, std::round(point.got / grid.step));
        most = std::max(most, std::round(point.got / grid.step));
    }
    const auto is_cut = [&](double sign) {
        return std::ranges::count_if(wrong, [&](const CurvePoint& point) {
                   return sign * (point.x - point.got) > 1.5 * grid.step + point.error;
               }) >= 2;
    };
    const bool below = is_cut(-1);
    const bool above = is_cut(1);
    if (!below && !above) {
        if (std::max(-least, most) > 128) return;
        least = -127 - int(least < -127);
        most = 127;
    } else if (!below) {
        least = std::min(least, -most);
    } else if (!above) {
        most = std::max(most, std::exp2(std::ceil(std::log2(-least))) - 1);
    }
    grid.least = least;
    grid.most = most;
    const double bits = std::log2(most + 1) + 1;
    const bool is_int = bits == std::round(bits) && (least == -most || least == -most - 1);
    grid.name = is_int ? fmt::format("int{}", bits) : fmt::format("{} to {} steps", least, most);
}

/// Whether growing values are so many different multiples of the step.
bool are_multiples(const std::vector<Known>& values, double step, int fewest) {
    double last = -1;
    for (const Known& known : values) {
        const double multiple = std::round(known.value / step);
        if (multiple == last) continue;
        last = multiple;
        if (--fewest == 0) return true;
    }
    return false;
}

std::optional<NumberGrid> steps_of(const Points& wrong) {
    constexpr std::size_t fewest_values = 6;
    constexpr int fewest_multiples = 3;
    constexpr double least_bits = 64;
    std::vector<Known> values;
    for (const CurvePoint& point : wrong)
        if (std::abs(point.got) > 8 * tolerance(point))
            values.push_back({std::abs(point.got), tolerance(point)});
    if (values.size() < fewest_values) return std::nullopt;
    std::ranges::sort(values, {}, &Known::value);
    for (int parts = 1; parts <= 127; ++parts) {
        const auto found = step_of(values, parts);
        if (!found) continue;
        NumberGrid grid;
        grid.name = "multiples";
        name_step(*found, grid);
        if (!are_multiples(values, grid.step, fewest_multiples)) return std::nullopt;
        bound(wrong, grid);
        for (const auto direction : {NumberGrid::Direction::to_nearest, NumberGrid::Direction::toward_zero}) {
            grid.direction = direction;
            if (is_grid_of(wrong, grid, least_bits)) return grid;
        }
    }
    return std::nullopt;
}

/// In float64 half of a step is not always what it is in float32.
double whole_near(double x) {
    const double halves = std::round(2 * x) / 2;
    return std::abs(x - halves) <= 1e-9 * std::abs(x) ? halves : x;
}

}  // namespace

double NumberGrid::spacing_at(double x) const {
    if (step > 0) return step;
    const int exponent = x == 0 ? least_exponent : std::max(std::ilogb(x), least_exponent);
    return std::ldexp(1.0, exponent - digits + 1);
}

double NumberGrid::rounded(double x) const {
    // Multiples have ends.
    if (std::isnan(x) || (std::isinf(x) && step <= 0)) return x;
    const double spacing = spacing_at(x);
    const double multiple = step > 0 ? whole_near(x / spacing) : x / spacing;
    const double whole = direction == Direction::to_nearest ? std::nearbyint(multiple) : std::trunc(multiple);
    if (step > 0) return std::clamp(whole, least, most) * step;
    const double number = whole * spacing;
    if (std::abs(number) <= largest) return number;
    return std::copysign(saturates ? largest : std::numeric_limits<double>::infinity(), x);
}

std::vector<NumberGrid> grids_of(const Points& points, const std::vector<NumberGrid>& known) {
    constexpr double least_bits = 40;
    Points wrong;
    for (const CurvePoint& point : points)
        if (point.wrong) wrong.push_back(point);
    std::vector<NumberGrid> grids;
    for (const NumberGrid& grid : known)
        if (is_grid_of(wrong, grid, least_bits)) grids.push_back(grid);
    if (!grids.empty()) return grids;
    if (const auto steps = steps_of(wrong)) grids.push_back(*steps);
    return grids;
}

}  // namespace tilescope
