#include "oracle/heatmap/histogram.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "oracle/formula/estimate.h"

namespace tilescope {

namespace {

template <std::size_t bins>
void count(double bin, int lowest, std::array<std::int64_t, bins>& counts) {
    ++counts[std::size_t(std::clamp(bin - lowest, 0.0, double(bins - 1)))];
}

}  // namespace

void add_element(const CountedElement& element, Histogram& histogram) {
    const auto& [got, expected, ratio] = element;
    const auto exponent = [](double value) { return std::floor(std::log2(std::abs(value))); };
    ++histogram.elements;
    if (got.kind == Kind::finite && got.value == 0) ++histogram.zeros;
    if (got.kind == Kind::finite && got.value != 0)
        count(exponent(got.value), Histogram::lowest_exponent, histogram.dumped);
    if (expected.kind == Kind::finite && expected.value != 0)
        count(exponent(expected.value), Histogram::lowest_exponent, histogram.expected);
    ++histogram.kinds[static_cast<std::size_t>(ratio.kind)];
    if (ratio.kind != Kind::finite) return;
    if (ratio.value == 0)
        ++histogram.exact;
    else
        count(std::floor(4 * std::log10(ratio.value)), Histogram::lowest_ratio, histogram.over_budget);
}

void add_tile(const ObservedTile& tile, const Rect& part, Histogram& histogram) {
    const auto last_row = std::min<std::int64_t>(part.last_row, tile.got.rows());
    const auto last_col = std::min<std::int64_t>(part.last_col, tile.got.cols());
    for (std::int64_t row = part.first_row; row < last_row; ++row) {
        for (std::int64_t col = part.first_col; col < last_col; ++col)
            add_element({.dumped = value_of(tile, Quantity::dumped, row, col),
                         .expected = value_of(tile, Quantity::expected, row, col),
                         .over_budget = value_of(tile, Quantity::over_budget, row, col)},
                        histogram);
    }
}

void merge(const Histogram& part, Histogram& whole) {
    const auto add = [](const auto& from, auto& to) {
        std::transform(from.begin(), from.end(), to.begin(), to.begin(), std::plus<>());
    };
    add(part.dumped, whole.dumped);
    add(part.expected, whole.expected);
    add(part.over_budget, whole.over_budget);
    add(part.kinds, whole.kinds);
    whole.zeros += part.zeros;
    whole.exact += part.exact;
    whole.elements += part.elements;
}

}  // namespace tilescope
