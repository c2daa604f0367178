#include "oracle/heatmap/quantity.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "dump/schema/semantics.h"
#include "oracle/formula/estimate.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr float largest = std::numeric_limits<float>::max();

constexpr std::array<QuantityInfo, quantity_count> quantities = {{
    {Quantity::dumped, "dumped", true, false, ColourMap::diverging, ScaleKind::linear},
    {Quantity::expected, "expected", true, true, ColourMap::diverging, ScaleKind::linear},
    {Quantity::difference, "difference", true, true, ColourMap::diverging, ScaleKind::symlog},
    {Quantity::over_budget, "over budget", false, true, ColourMap::budget, ScaleKind::log},
    {Quantity::ulps, "ulps", false, true, ColourMap::sequential, ScaleKind::log},
    {Quantity::relative, "relative error", false, true, ColourMap::sequential, ScaleKind::log},
    {Quantity::replayed, "replayed", true, true, ColourMap::diverging, ScaleKind::linear, Reference::replay,
     Quantity::expected},
    {Quantity::unexplained, "unexplained", false, true, ColourMap::budget, ScaleKind::log, Reference::replay,
     Quantity::over_budget},
    {Quantity::expected_end_to_end, "expected end to end", true, true, ColourMap::diverging,
     ScaleKind::linear, Reference::end_to_end, Quantity::expected},
    {Quantity::difference_end_to_end, "difference end to end", true, true, ColourMap::diverging,
     ScaleKind::symlog, Reference::end_to_end, Quantity::difference},
    {Quantity::over_budget_end_to_end, "over budget end to end", false, true, ColourMap::budget,
     ScaleKind::log, Reference::end_to_end, Quantity::over_budget},
    {Quantity::ulps_end_to_end, "ulps end to end", false, true, ColourMap::sequential, ScaleKind::log,
     Reference::end_to_end, Quantity::ulps},
    {Quantity::relative_end_to_end, "relative error end to end", false, true, ColourMap::sequential,
     ScaleKind::log, Reference::end_to_end, Quantity::relative},
}};

Kind kind_of(double value) {
    if (std::isnan(value)) return Kind::nan;
    if (std::isinf(value)) return value > 0 ? Kind::plus_infinity : Kind::minus_infinity;
    return Kind::finite;
}

ElementValue classified(double value) {
    const Kind kind = kind_of(value);
    return {kind == Kind::finite ? value : 0, kind};
}

/// What the mask hides of one row of a tile of s or p, and what it leaves there.
class HiddenCells {
 public:
    HiddenCells(const ObservedTile& tile, Eigen::Index row)
        : first_col_(tile.context.first_col),
          resting_(tile.context.stage == Stage::s ? tile.context.masked_score : 0) {
        const bool masked = tile.context.stage == Stage::s || tile.context.stage == Stage::p;
        if (masked) visible_ = visible_keys(tile.problem, tile.context.first_row + row);
    }

    bool hides(Eigen::Index col) const { return visible_ && !visible_->contains(first_col_ + col); }
    bool any(Eigen::Index cols) const {
        return visible_ && (visible_->first > first_col_ || visible_->last < first_col_ + cols);
    }
    bool rests(Eigen::Index col, double value) const { return float(value) == float(resting_) && hides(col); }

 private:
    std::optional<KeyRange> visible_;
    std::int64_t first_col_;
    double resting_;
};

double distance_in_ulps(Dtype dtype, double got, double expected) {
    const std::uint64_t ulps = ulp_distance(dtype, got, expected);
    return ulps == std::numeric_limits<std::uint64_t>::max() ? infinity : double(ulps);
}

/// |difference| / by, of a finite difference.
double quotient(double difference, double by) {
    if (difference == 0) return 0;
    return by > 0 ? std::abs(difference) / by : double(largest);
}

/// Of finite values.
double error_of(const Judged& element, Quantity quantity, Dtype dtype) {
    const double difference = double(element.got) - element.expected;
    if (quantity == Quantity::difference) return difference;
    if (quantity == Quantity::ulps) return distance_in_ulps(dtype, element.got, element.expected);
    return quotient(difference,
                    quantity == Quantity::over_budget ? element.tolerance : std::abs(element.expected));
}

ElementValue dumped_value(float got, const HiddenCells& hidden, Eigen::Index col) {
    if (is_unwritten(got)) return {0, Kind::unwritten};
    if (hidden.rests(col, got)) return {0, Kind::masked};
    return classified(got);
}

ElementValue expected_value(const ObservedTile& tile, const HiddenCells& hidden, Eigen::Index row,
                            Eigen::Index col) {
    const double expected = tile.expected->value(row, col);
    if (tile.context.expects_nan && is_unwritten(float(expected))) return {0, Kind::unwritten};
    if (hidden.rests(col, expected)) return {0, Kind::masked};
    const bool certain = tile.context.expects_nan || tile.expected->error(row, col) == 0;
    if (std::isnan(expected) && !certain) return {0, Kind::indifferent};
    return classified(expected);
}

ElementValue error_value(const Judged& element, Quantity quantity, Dtype dtype) {
    switch (element.finding) {
        case Finding::unwritten:
            return {0, Kind::unwritten};
        case Finding::nan:
            return {0, Kind::nan};
        case Finding::not_judged:
            return {0, Kind::not_judged};
        case Finding::indifferent:
            return {0, Kind::indifferent};
        case Finding::match:
            // An infinity or NaN as it is to be.
            if (!std::isfinite(element.got - element.expected)) return {0, Kind::finite};
            break;
        case Finding::infinite:
            // The colour is that of what was dumped: a difference to -Inf is no +Inf.
            return {0, std::isinf(element.got) ? kind_of(element.got) : Kind::should_be_infinite};
        case Finding::outside:
        case Finding::conflicting:
            break;
    }
    return classified(error_of(element, quantity, dtype));
}

ElementValue error_value(const ObservedTile& tile, const CompareOptions& options, const HiddenCells& hidden,
                         Quantity quantity, Eigen::Index row, Eigen::Index col) {
    const Judged element = judge_at(tile, options, row, col);
    const bool rests = element.finding == Finding::match && hidden.rests(col, element.got);
    const bool is_hidden =
        element.finding == Finding::indifferent && is_masked(tile.context, element.expected);
    if (rests || is_hidden) return {0, Kind::masked};
    return error_value(element, quantity, tile.context.dtype);
}

ElementValue value_at(const ObservedTile& tile, const CompareOptions& options, const HiddenCells& hidden,
                      Quantity quantity, Eigen::Index row, Eigen::Index col) {
    switch (quantity) {
        case Quantity::dumped:
            return dumped_value(tile.got(row, col), hidden, col);
        case Quantity::expected:
            return expected_value(tile, hidden, row, col);
        default:
            return error_value(tile, options, hidden, quantity, row, col);
    }
}

/// Bit patterns in the order of the numbers they stand for.
std::int64_t in_order(float value) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    return bits < 0 ? std::int64_t(std::numeric_limits<std::int32_t>::min()) - bits : bits;
}

/// A row of which every element is taken as an ordinary one; what comes out not finite is none.
void fast_row(const ObservedTile& tile, const CompareOptions& options, Quantity quantity, Eigen::Index row,
              float* out) {
    const Eigen::Index cols = tile.got.cols();
    const Eigen::Index first = row * cols;
    const float* got = tile.got.data() + first;
    if (quantity == Quantity::dumped) {
        std::copy_n(got, cols, out);
        return;
    }
    const double* expected = tile.expected->value.data() + first;
    const double* error = tile.expected->error.data() + first;
    const bool derived = !options.atol && !options.rtol;
    const double atol = options.atol.value_or(0);
    const double rtol = options.rtol.value_or(0);
    for (Eigen::Index j = 0; j < cols; ++j) {
        const double difference = double(got[j]) - expected[j];
        const double tolerance = derived ? error[j] : atol + rtol * std::abs(expected[j]);
        switch (quantity) {
            case Quantity::expected:
                out[j] = float(expected[j]);
                break;
            case Quantity::difference:
                out[j] = float(difference);
                break;
            case Quantity::over_budget:
                out[j] = float(difference == 0 ? 0 : std::abs(difference) / tolerance);
                break;
            case Quantity::relative:
                out[j] = float(difference == 0 ? 0 : std::abs(difference / expected[j]));
                break;
            default:
                out[j] = std::isfinite(got[j]) && std::isfinite(float(expected[j]))
                             ? float(std::abs(in_order(got[j]) - in_order(float(expected[j]))))
                             : std::numeric_limits<float>::quiet_NaN();
                break;
        }
    }
}

}  // namespace

const std::array<QuantityInfo, quantity_count>& all_quantities() {
    return quantities;
}

const QuantityInfo& quantity_info(Quantity quantity) {
    return quantities[static_cast<std::size_t>(quantity)];
}

Quantity against(Reference reference, Quantity quantity) {
    const auto found = std::ranges::find_if(quantities, [&](const QuantityInfo& info) {
        return info.against == reference && info.computed_as == quantity;
    });
    return found == quantities.end() ? quantity : found->quantity;
}

float in_float_range(double value) {
    return float(std::clamp(value, -double(largest), double(largest)));
}

Pyramid::Sign sign_of(Quantity quantity) {
    return quantity_info(quantity).is_signed ? Pyramid::Sign::any : Pyramid::Sign::never_negative;
}

void values_of(const ObservedTile& tile, Quantity asked, QuantityValues& out) {
    const Quantity quantity = quantity_info(asked).computed_as;
    const Eigen::Index rows = tile.got.rows();
    const Eigen::Index cols = tile.got.cols();
    out.values.resize(std::size_t(rows * cols));
    out.kinds.assign(std::size_t(rows * cols), Kind::finite);
    const CompareOptions options = compare_options(tile);
    const bool of_values = quantity == Quantity::dumped || quantity == Quantity::expected;
    const bool fast = (quantity != Quantity::ulps || tile.context.dtype == Dtype::f32) &&
                      (of_values || tells_everywhere(*tile.expected, options));
    for (Eigen::Index row = 0; row < rows; ++row) {
        float* values = out.values.data() + row * cols;
        Kind* kinds = out.kinds.data() + row * cols;
        const HiddenCells hidden(tile, row);
        const bool some_hidden = hidden.any(cols);
        if (fast) fast_row(tile, options, quantity, row, values);
        for (Eigen::Index col = 0; col < cols; ++col) {
            const bool ordinary = fast && std::abs(values[col]) <= largest;
            if (ordinary && !(some_hidden && hidden.hides(col))) continue;
            const ElementValue element = value_at(tile, options, hidden, quantity, row, col);
            values[col] = in_float_range(element.value);
            kinds[col] = element.kind;
        }
        if (quantity != Quantity::over_budget || tile.end_to_end == nullptr) continue;
        for (Eigen::Index col = 0; col < cols; ++col) {
            if (is_inherited(tile, row, col)) kinds[col] = Kind::inherited;
        }
    }
}

ElementValue value_of(const ObservedTile& tile, Quantity quantity, Eigen::Index row, Eigen::Index col) {
    const Quantity computed_as = quantity_info(quantity).computed_as;
    ElementValue element =
        value_at(tile, compare_options(tile), HiddenCells(tile, row), computed_as, row, col);
    if (computed_as != Quantity::over_budget || !is_inherited(tile, row, col)) return element;
    if (element.kind != Kind::finite) element.value = std::numeric_limits<double>::quiet_NaN();
    return {element.value, Kind::inherited};
}

ElementValue value_of(const Judged& element, Quantity quantity, Dtype dtype) {
    if (quantity == Quantity::dumped)
        return element.finding == Finding::unwritten ? ElementValue{0, Kind::unwritten}
                                                     : classified(element.got);
    if (quantity == Quantity::expected)
        return std::isnan(element.expected) ? ElementValue{0, Kind::indifferent}
                                            : classified(element.expected);
    return error_value(element, quantity, dtype);
}

}  // namespace tilescope
