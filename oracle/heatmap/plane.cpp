#include "oracle/heatmap/plane.h"

#include <fmt/format.h>

#include <utility>

#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// What the tiles of a plane lie along, one after the other.
enum class WalkOver : std::uint8_t { none, q_blocks, kv_tiles };

/// Where a stage's tiles lie in its planes: those of a slice by `down` and `across`.
struct Layout {
    WalkOver down = WalkOver::none;
    WalkOver across = WalkOver::none;
    bool slice_is_q_block = false;
    bool slice_is_kv_tile = false;
};

WalkOver walk_of(Axis axis) {
    return axis == Axis::query ? WalkOver::q_blocks : axis == Axis::key ? WalkOver::kv_tiles : WalkOver::none;
}

Layout layout_of(const Problem& problem, Stage stage) {
    const StageInfo info = stage_info(problem, stage);
    Layout layout{walk_of(info.row_axis), walk_of(info.col_axis), false, false};
    // Blocks that no axis walks along lie side by side along units, and are slices otherwise.
    for (const auto& [has, walk] :
         {std::pair(info.per_q_block, WalkOver::q_blocks), std::pair(info.per_kv_tile, WalkOver::kv_tiles)}) {
        if (!has || layout.down == walk || layout.across == walk) continue;
        const bool units_down = info.row_axis == Axis::unit && layout.down == WalkOver::none;
        const bool units_across = info.col_axis == Axis::unit && layout.across == WalkOver::none;
        const bool prefers_down = walk == WalkOver::q_blocks;
        if (units_down && (prefers_down || !units_across)) {
            layout.down = walk;
        } else if (units_across) {
            layout.across = walk;
        } else {
            (walk == WalkOver::q_blocks ? layout.slice_is_q_block : layout.slice_is_kv_tile) = true;
        }
    }
    return layout;
}

/// Elements of the plane along an axis of tiles.
std::int64_t length_of(const Problem& problem, Axis axis, WalkOver walk, std::int64_t tile) {
    if (axis == Axis::query) return problem.seqlen_q;
    if (axis == Axis::key) return problem.seqlen_kv;
    return tile * (walk == WalkOver::q_blocks   ? problem.q_blocks()
                   : walk == WalkOver::kv_tiles ? problem.kv_tiles()
                                                : 1);
}

std::int64_t slice_of(const Problem& problem, const Layout& layout, const TileId& tile) {
    const std::int64_t kv_tiles = layout.slice_is_kv_tile ? problem.kv_tiles() : 1;
    return (layout.slice_is_q_block ? tile.q_block * kv_tiles : 0) +
           (layout.slice_is_kv_tile ? tile.kv_tile : 0);
}

std::int64_t index_along(WalkOver walk, const TileId& tile) {
    return walk == WalkOver::q_blocks ? tile.q_block : walk == WalkOver::kv_tiles ? tile.kv_tile : 0;
}

}  // namespace

PlaneShape plane_shape(const Problem& problem, Stage stage) {
    const TileShape tile = tile_shape(problem, stage);
    const StageInfo info = stage_info(problem, stage);
    const Layout layout = layout_of(problem, stage);
    return {length_of(problem, info.row_axis, layout.down, tile.rows),
            length_of(problem, info.col_axis, layout.across, tile.cols), tile.rows, tile.cols};
}

std::int64_t slice_count(const Problem& problem, Stage stage) {
    const Layout layout = layout_of(problem, stage);
    return (layout.slice_is_q_block ? problem.q_blocks() : 1) *
           (layout.slice_is_kv_tile ? problem.kv_tiles() : 1);
}

SliceKinds slice_kinds(const Problem& problem, Stage stage) {
    const Layout layout = layout_of(problem, stage);
    return {layout.slice_is_q_block, layout.slice_is_kv_tile};
}

PlaceInTile place_in_tile(const Problem& problem, const Plane& plane, std::int64_t row, std::int64_t col) {
    const PlaneShape shape = plane_shape(problem, plane.stage);
    const Layout layout = layout_of(problem, plane.stage);
    const std::int64_t down = row / shape.tile_rows;
    const std::int64_t across = col / shape.tile_cols;
    const std::int64_t kv_slices = layout.slice_is_kv_tile ? problem.kv_tiles() : 1;
    const auto index = [&](WalkOver walk, bool slice, std::int64_t in_slice) {
        return slice ? in_slice : layout.down == walk ? down : layout.across == walk ? across : 0;
    };
    PlaceInTile place;
    place.tile = {plane.batch, plane.head,
                  index(WalkOver::q_blocks, layout.slice_is_q_block, plane.slice / kv_slices),
                  index(WalkOver::kv_tiles, layout.slice_is_kv_tile, plane.slice % kv_slices)};
    place.row = row - down * shape.tile_rows;
    place.col = col - across * shape.tile_cols;
    return place;
}

PlaceInPlane corner_of(const Problem& problem, Stage stage, const TileId& tile) {
    const PlaneShape shape = plane_shape(problem, stage);
    const Layout layout = layout_of(problem, stage);
    return {{stage, tile.batch, tile.head, slice_of(problem, layout, tile)},
            index_along(layout.down, tile) * shape.tile_rows,
            index_along(layout.across, tile) * shape.tile_cols};
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

std::string plane_name(const Problem& problem, const Plane& plane) {
    const SliceKinds slices = slice_kinds(problem, plane.stage);
    const TileId first = place_in_tile(problem, plane, 0, 0).tile;
    std::string slice;
    if (slices.kv_tiles && problem.kv_tiles() > 1) slice += fmt::format(", KV tile {}", first.kv_tile);
    if (slices.q_blocks && problem.q_blocks() > 1) slice += fmt::format(", q block {}", first.q_block);
    return fmt::format("{} of batch {} head {}{}", stage_info(problem, plane.stage).name, plane.batch,
                       plane.head, slice);
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
