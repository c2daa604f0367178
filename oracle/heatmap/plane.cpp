#include "oracle/heatmap/plane.h"

#include "oracle/tiles.h"

namespace tilescope {

namespace {

/// Where a stage's tiles lie in its planes.
struct Layout {
    bool slice_is_kv_tile;
    bool slice_is_q_block;
    bool rows_are_keys;
    bool cols_are_kv_tiles;  ///< tiles lie side by side by KV tile
};

Layout layout_of(Stage stage) {
    const StageInfo& info = stage_info(stage);
    const bool keys = info.row_axis == Axis::key;
    const bool features = info.col_axis == Axis::feature;
    return {.slice_is_kv_tile = info.per_kv_tile && !keys && features,
            .slice_is_q_block = info.per_q_block && keys,
            .rows_are_keys = keys,
            .cols_are_kv_tiles = info.per_kv_tile && !keys && !features};
}

}  // namespace

PlaneShape plane_shape(const Problem& problem, Stage stage) {
    const TileShape tile = tile_shape(problem, stage);
    const Layout layout = layout_of(stage);
    PlaneShape shape{layout.rows_are_keys ? problem.seqlen_kv : problem.seqlen_q, tile.cols, tile.rows,
                     tile.cols};
    if (stage_info(stage).col_axis == Axis::key) {
        shape.cols = problem.seqlen_kv;
    } else if (layout.cols_are_kv_tiles) {
        shape.cols = problem.kv_tiles() * tile.cols;
    }
    return shape;
}

std::int64_t slice_count(const Problem& problem, Stage stage) {
    const Layout layout = layout_of(stage);
    return layout.slice_is_kv_tile ? problem.kv_tiles() : layout.slice_is_q_block ? problem.q_blocks() : 1;
}

PlaceInTile place_in_tile(const Problem& problem, const Plane& plane, std::int64_t row, std::int64_t col) {
    const PlaneShape shape = plane_shape(problem, plane.stage);
    const Layout layout = layout_of(plane.stage);
    const std::int64_t down = row / shape.tile_rows;
    const std::int64_t across = col / shape.tile_cols;
    PlaceInTile place;
    place.tile = {plane.batch, plane.head,
                  layout.slice_is_q_block ? plane.slice
                  : layout.rows_are_keys  ? 0
                                          : down,
                  layout.slice_is_kv_tile    ? plane.slice
                  : layout.rows_are_keys     ? down
                  : layout.cols_are_kv_tiles ? across
                                             : 0};
    place.row = row - down * shape.tile_rows;
    place.col = col - across * shape.tile_cols;
    return place;
}

PlaceInPlane corner_of(const Problem& problem, Stage stage, const TileId& tile) {
    const PlaneShape shape = plane_shape(problem, stage);
    const Layout layout = layout_of(stage);
    const std::int64_t slice = layout.slice_is_kv_tile   ? tile.kv_tile
                               : layout.slice_is_q_block ? tile.q_block
                                                         : 0;
    return {{stage, tile.batch, tile.head, slice},
            (layout.rows_are_keys ? tile.kv_tile : tile.q_block) * shape.tile_rows,
            layout.cols_are_kv_tiles ? tile.kv_tile * shape.tile_cols : 0};
}

PlaceInPlane place_in_plane(const Problem& problem, const ElementPlace& place) {
    const TileContext context = tile_context(problem, place.stage, place.tile);
    PlaceInPlane corner = corner_of(problem, place.stage, place.tile);
    corner.row += place.row - context.first_row;
    corner.col += place.col - context.first_col;
    return corner;
}

PlaceInPlane place_in_plane(const Problem& problem, Stage stage, const Element& element) {
    return place_in_plane(problem, {stage, element.tile, element.row, element.col});
}

ElementPlace element_at(const Problem& problem, const Plane& plane, std::int64_t row, std::int64_t col) {
    const PlaceInTile place = place_in_tile(problem, plane, row, col);
    const TileContext context = tile_context(problem, plane.stage, place.tile);
    return {plane.stage, place.tile, context.first_row + place.row, context.first_col + place.col};
}

std::vector<TileId> tiles_of(const Problem& problem, const Plane& plane) {
    const PlaneShape shape = plane_shape(problem, plane.stage);
    std::vector<TileId> tiles;
    for (std::int64_t row = 0; row < shape.rows; row += shape.tile_rows)
        for (std::int64_t col = 0; col < shape.cols; col += shape.tile_cols)
            tiles.push_back(place_in_tile(problem, plane, row, col).tile);
    return tiles;
}

}  // namespace tilescope
