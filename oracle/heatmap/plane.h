#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "dump/schema.h"
#include "oracle/explain/explain.h"
#include "oracle/judge/tally.h"

namespace tilescope {

/// What a heatmap shows: a matrix of one stage in one head. Some stages have several: `slice` is the KV tile
/// of acc and the query block of k and v, and 0 for the other stages. Of a named tile it counts the query
/// blocks and KV tiles that the matrix does not already show along its rows and columns.
struct Plane {
    Stage stage = Stage::s;
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t slice = 0;

    auto operator<=>(const Plane&) const = default;
};

/// Sizes in elements. Rows are q rows (k, v: keys). Columns are keys (s, p), features, or KV tiles (m; l: KV
/// tiles times lanes). Those of a named tile may be either.
struct PlaneShape {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t tile_rows = 0;
    std::int64_t tile_cols = 0;

    std::int64_t tiles_down() const { return (rows + tile_rows - 1) / tile_rows; }
    std::int64_t tiles_across() const { return (cols + tile_cols - 1) / tile_cols; }
    bool operator==(const PlaneShape&) const = default;
};
PlaneShape plane_shape(const Problem& problem, Stage stage);

/// Planes that a head of the stage has.
std::int64_t slice_count(const Problem& problem, Stage stage);

/// What the slices of a stage count; the first element of a plane names the block.
struct SliceKinds {
    bool q_blocks = false;
    bool kv_tiles = false;
};
SliceKinds slice_kinds(const Problem& problem, Stage stage);

struct PlaceInTile {
    TileId tile;
    std::int64_t row = 0;
    std::int64_t col = 0;
    bool operator==(const PlaceInTile&) const = default;
};
/// `row` and `col` are inside the plane.
PlaceInTile place_in_tile(const Problem& problem, const Plane& plane, std::int64_t row, std::int64_t col);

struct PlaceInPlane {
    Plane plane;
    std::int64_t row = 0;
    std::int64_t col = 0;
    bool operator==(const PlaceInPlane&) const = default;
};
/// Of the tile's first element.
PlaceInPlane corner_of(const Problem& problem, Stage stage, const TileId& tile);
PlaceInPlane place_in_plane(const Problem& problem, const ElementPlace& place);
PlaceInPlane place_in_plane(const Problem& problem, Stage stage, const Element& element);

/// In coordinates of the tensor, as a report names it.
ElementPlace element_at(const Problem& problem, const Plane& plane, std::int64_t row, std::int64_t col);

/// "acc of batch 0 head 0, KV tile 1".
std::string plane_name(const Problem& problem, const Plane& plane);

/// In order of rows, then columns.
std::vector<TileId> tiles_of(const Problem& problem, const Plane& plane);

}  // namespace tilescope
