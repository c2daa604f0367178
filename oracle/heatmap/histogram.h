#pragma once

#include <array>
#include <cstdint>

#include "oracle/heatmap/pyramid.h"
#include "oracle/heatmap/quantity.h"

namespace tilescope {

/// Exponents and errors of a selection.
struct Histogram {
    static constexpr int lowest_exponent = -149;
    static constexpr int exponent_bins = 277;
    static constexpr int lowest_ratio = -40;
    static constexpr int ratio_bins = 81;

    /// Finite values other than 0, by floor(log2 |value|) - lowest_exponent; the ends take the rest.
    std::array<std::int64_t, exponent_bins> dumped{};
    std::array<std::int64_t, exponent_bins> expected{};
    /// |difference| / tolerance other than 0, by floor(4 log10) - lowest_ratio; the ends take the rest.
    std::array<std::int64_t, ratio_bins> over_budget{};
    std::array<std::int64_t, kind_count> kinds{};  ///< of Quantity::over_budget
    std::int64_t zeros = 0;                        ///< dumped values that are 0
    std::int64_t exact = 0;                        ///< differences that are 0
    std::int64_t elements = 0;
};

/// An element as the quantities have it.
struct CountedElement {
    ElementValue dumped;
    ElementValue expected;
    ElementValue over_budget;
};
void add_element(const CountedElement& element, Histogram& histogram);
/// Adds the elements of the tile that lie in `part`, in rows and columns of the tile.
void add_tile(const ObservedTile& tile, const Rect& part, Histogram& histogram);
void merge(const Histogram& part, Histogram& whole);

}  // namespace tilescope
