#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "oracle/heatmap/plane.h"
#include "oracle/heatmap/quantity.h"

namespace tilescope {

/// What an element of a detail tile takes, with every quantity.
inline constexpr std::int64_t detail_bytes_of_element =
    sizeof(float) + 4 * sizeof(double) + healthy_quantity_count * (sizeof(float) + sizeof(Kind));

/// A captured tile and what it should hold, or what a replay holds, kept for looking at its elements.
class DetailTile {
 public:
    DetailTile(const ObservedTile& tile);

    std::int64_t rows() const;
    std::int64_t cols() const;
    /// In coordinates of the tensor, with its finding; `row` and `col` are those of the tile.
    Element element(std::int64_t row, std::int64_t col) const;
    float dumped(std::int64_t row, std::int64_t col) const;
    /// Agrees with the stages before it, and not with what is expected end to end.
    bool inherits(std::int64_t row, std::int64_t col) const;
    /// What is expected of it end to end, in place of what the stages before it give. Only of what inherits.
    Element end_to_end(std::int64_t row, std::int64_t col) const;
    ElementValue value(Quantity quantity, std::int64_t row, std::int64_t col) const;
    /// Computed when first asked for. Thread-safe.
    const QuantityValues& values(Quantity quantity) const;
    Dtype dtype() const { return context_.dtype; }
    /// False for a named tile that is compared with no other recording.
    bool has_reference() const { return !is_named(context_.stage) || context_.expects_nan; }
    std::int64_t bytes() const { return rows() * cols() * detail_bytes_of_element; }

 private:
    struct Kept;
    ObservedTile view() const;

    Problem problem_;
    TileContext context_;
    std::shared_ptr<const Kept> kept_;
    CompareOptions options_;
    mutable std::mutex mutex_;
    mutable std::array<QuantityValues, healthy_quantity_count> values_;  ///< by what they are computed as
};

/// Those tiles of a part of a plane that are there.
struct DetailTiles {
    Plane plane;
    PlaneShape shape;
    Quantity quantity = Quantity::over_budget;
    std::int64_t first_down = 0;  ///< tile row and tile column of the first
    std::int64_t first_across = 0;
    std::int64_t down = 0;
    std::int64_t across = 0;
    std::vector<std::shared_ptr<const DetailTile>> tiles;  ///< down x across, null where not there

    /// Of the tile at this tile row and column of the plane; null where not there.
    const DetailTile* tile(std::int64_t at_down, std::int64_t at_across) const;
    /// The element's tile, null where not there.
    const DetailTile* at(std::int64_t row, std::int64_t col) const {
        return tile(row / shape.tile_rows, col / shape.tile_cols);
    }
};

}  // namespace tilescope
