#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "oracle/heatmap/colour.h"
#include "oracle/heatmap/pyramid.h"
#include "oracle/judge/observe.h"

namespace tilescope {

/// What a heatmap shows of an element.
enum class Quantity : std::uint8_t {
    dumped,
    expected,
    difference,   ///< dumped - expected
    over_budget,  ///< |difference| / tolerance
    ulps,         ///< of the type that the value was rounded to
    relative,     ///< |difference| / |expected|
    replayed,     ///< expected of a kernel with a mistake
    unexplained,  ///< |dumped - replayed| / tolerance of the replay
    /// The same as above against what the inputs alone give, in place of what the stages before give.
    expected_end_to_end,
    difference_end_to_end,
    over_budget_end_to_end,
    ulps_end_to_end,
    relative_end_to_end
};
inline constexpr int quantity_count = 13;
/// Those before are of a healthy kernel.
inline constexpr int healthy_quantity_count = int(Quantity::replayed);

/// Where it comes from what a tile is compared with.
enum class Reference : std::uint8_t {
    local,       ///< from the stages before, as they were dumped; or from the other recording
    end_to_end,  ///< from the inputs alone
    replay       ///< from the stages before, with a mistake
};

struct QuantityInfo {
    Quantity quantity;
    std::string_view name;
    bool is_signed;
    bool needs_oracle;
    ColourMap colours;
    ScaleKind scale;
    Reference against = Reference::local;
    /// How its values are computed, once what is expected of the tile is what the reference gives.
    Quantity computed_as = quantity;
};
const std::array<QuantityInfo, quantity_count>& all_quantities();
const QuantityInfo& quantity_info(Quantity quantity);
/// The quantity that is computed alike and of that reference; itself where there is none, as of dumped.
Quantity against(Reference reference, Quantity quantity);
/// Of a pyramid of that quantity.
Pyramid::Sign sign_of(Quantity quantity);

/// Row-major, both of the tile's size without padding.
struct QuantityValues {
    std::vector<float> values;  ///< 0 where the kind is not finite
    std::vector<Kind> kinds;
};

/// Values of `quantity` against what the stages before give, rounded to float32. A value beyond its range, or
/// of a finite difference divided by 0, becomes the largest finite float32, so that infinities are only those
/// that were dumped. Kinds: should_be_infinite is a finite value where an infinity belongs; masked an element
/// that the mask hides and that is as it should be; indifferent one of which nothing can be expected;
/// inherited, of over_budget, one that agrees with the stages before it and differs end to end, with its
/// value all the same.
void values_of(const ObservedTile& tile, Quantity quantity, QuantityValues& out);

/// The same of one element, in float64 and in float32's range or not. `kind` is that of values_of().
struct ElementValue {
    double value = 0;  ///< NaN where something inherited has none
    Kind kind = Kind::finite;
};
ElementValue value_of(const ObservedTile& tile, Quantity quantity, std::int64_t row, std::int64_t col);
/// Clamped.
float in_float_range(double value);
/// The same of one that was held against something, wherever that came from, and that no mask hides.
ElementValue value_of(const Judged& element, Quantity quantity, Dtype dtype);

}  // namespace tilescope
