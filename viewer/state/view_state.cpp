#include "viewer/state/view_state.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "dump/schema/error.h"
#include "oracle/explain/explain.h"

namespace tilescope::viewer {

namespace {

constexpr double smallest_range = 2;
/// Tiles that are shown each way at the first divergence.
constexpr double opening_tiles = 2;

/// Elements at the edge can be centred, too: half of what is shown may lie outside.
AxisExtent extent_of(const Problem& problem, ViewAxis axis) {
    const double length = double(length_of(problem, axis));
    return {length, std::max(length, opening_tiles * double(tile_length_of(problem, axis)))};
}

std::int64_t clamped(std::int64_t value, std::int64_t count) {
    return std::clamp<std::int64_t>(value, 0, count - 1);
}

/// Columns of the stage's plane for one step of its axis: lanes, where a KV tile has several.
double columns_of_unit(const Problem& problem, Stage stage) {
    return col_axis_of(problem, stage) == ViewAxis::tile ? double(plane_shape(problem, stage).tile_cols) : 1;
}

struct AxisName {
    ViewAxis axis;
    std::string_view label;
};
constexpr std::array<AxisName, shared_axis_count> axis_names = {{
    {ViewAxis::query, "q row"},
    {ViewAxis::key, "key"},
    {ViewAxis::feature, "column"},
    {ViewAxis::value, "column"},
    {ViewAxis::tile, "KV tile"},
    {ViewAxis::unit, ""},
}};

ViewAxis named_rows_of(Stage stage) {
    return ViewAxis(shared_axis_count + int(stage) - built_in_stages);
}
ViewAxis named_cols_of(Stage stage) {
    return ViewAxis(int(named_rows_of(stage)) + max_named_tiles);
}
bool is_shared(ViewAxis axis) {
    return int(axis) < shared_axis_count;
}
int named_index(ViewAxis axis) {
    return int(axis) - shared_axis_count;
}

bool walks_queries(const StageInfo& info) {
    return info.row_axis == Axis::query || info.col_axis == Axis::query;
}
bool walks_keys(const StageInfo& info) {
    return info.row_axis == Axis::key || info.col_axis == Axis::key;
}

/// Of the tile that the cursor is in.
PlaceInPlane corner_at(const Problem& problem, const Cursor& cursor, Stage stage) {
    return corner_of(problem, stage,
                     {cursor.batch, head_in(problem, stage, cursor.head), cursor.row / problem.block_m,
                      cursor.key / problem.block_n});
}

}  // namespace

ViewAxis row_axis_of(const Problem& problem, Stage stage) {
    const Axis axis = stage_info(problem, stage).row_axis;
    if (axis == Axis::query) return ViewAxis::query;
    return axis == Axis::key ? ViewAxis::key : named_rows_of(stage);
}

ViewAxis col_axis_of(const Problem& problem, Stage stage) {
    const StageInfo info = stage_info(problem, stage);
    const bool of_qk = stage == Stage::q || stage == Stage::k || stage == Stage::dq || stage == Stage::dk;
    const PlaneShape shape = plane_shape(problem, stage);
    switch (info.col_axis) {
        case Axis::query:
            return ViewAxis::query;
        case Axis::key:
            return ViewAxis::key;
        case Axis::feature:
            return is_named(stage) ? named_cols_of(stage) : of_qk ? ViewAxis::feature : ViewAxis::value;
        case Axis::unit:
            break;
    }
    // Side by side by KV tile, or one column for everything.
    if (shape.cols == problem.kv_tiles() * shape.tile_cols && info.per_kv_tile && !walks_keys(info))
        return ViewAxis::tile;
    return shape.cols == 1 ? ViewAxis::unit : named_cols_of(stage);
}

std::string_view label_of(ViewAxis axis) {
    return is_shared(axis)                       ? axis_names[std::size_t(axis)].label
           : named_index(axis) < max_named_tiles ? "row"
                                                 : "column";
}

std::int64_t length_of(const Problem& problem, ViewAxis axis) {
    switch (axis) {
        case ViewAxis::query:
            return problem.seqlen_q;
        case ViewAxis::key:
            return problem.seqlen_kv;
        case ViewAxis::feature:
            return problem.head_dim;
        case ViewAxis::value:
            return problem.head_dim_v;
        case ViewAxis::tile:
            return problem.kv_tiles();
        case ViewAxis::unit:
            return 1;
        default:
            break;
    }
    const Stage stage = named_tile(named_index(axis) % max_named_tiles);
    if (!has_stage(problem, stage)) return 1;
    const PlaneShape shape = plane_shape(problem, stage);
    return named_index(axis) < max_named_tiles ? shape.rows : shape.cols;
}

std::int64_t tile_length_of(const Problem& problem, ViewAxis axis) {
    if (axis == ViewAxis::query) return problem.block_m;
    if (axis == ViewAxis::key) return problem.block_n;
    return axis == ViewAxis::tile ? 1 : length_of(problem, axis);
}

std::int64_t head_in(const Problem& problem, Stage stage, std::int64_t head) {
    return stage_head(problem, stage, head);
}

std::int64_t query_head_in(const Problem& problem, Stage stage, std::int64_t head, std::int64_t before) {
    const HeadRange heads = query_heads(problem, stage, head);
    return heads.contains(before) ? before : heads.first;
}

Plane plane_at(const Problem& problem, const Cursor& cursor, Stage stage) {
    return corner_at(problem, cursor, stage).plane;
}

PlanePoint point_at(const Problem& problem, const Cursor& cursor, Stage stage) {
    const PlaneShape shape = plane_shape(problem, stage);
    const PlaceInPlane corner = corner_at(problem, cursor, stage);
    const auto along = [&](ViewAxis axis, std::int64_t begin, std::int64_t in_tile, std::int64_t length) {
        if (axis == ViewAxis::query) return cursor.row;
        if (axis == ViewAxis::key) return cursor.key;
        return begin + std::min(in_tile, length - 1);
    };
    const ViewAxis across = col_axis_of(problem, stage);
    const std::int64_t in_tile =
        stage_info(problem, stage).col_axis == Axis::unit ? cursor.lane : cursor.feature;
    return {along(row_axis_of(problem, stage), corner.row, cursor.unit, shape.tile_rows),
            along(across, corner.col, in_tile, shape.tile_cols)};
}

Cursor cursor_at(const Problem& problem, const Cursor& before, const Plane& plane, PlanePoint point) {
    const PlaneShape shape = plane_shape(problem, plane.stage);
    const StageInfo info = stage_info(problem, plane.stage);
    point.row = clamped(point.row, shape.rows);
    point.col = clamped(point.col, shape.cols);
    const PlaceInTile place = place_in_tile(problem, plane, point.row, point.col);
    Cursor cursor = before;
    cursor.batch = plane.batch;
    cursor.head = query_head_in(problem, plane.stage, plane.head, before.head);
    const auto set = [&](Axis axis, std::int64_t in_plane, std::int64_t in_tile,
                         std::int64_t Cursor::*other) {
        (axis == Axis::query ? cursor.row
         : axis == Axis::key ? cursor.key
                             : cursor.*other) = axis == Axis::query || axis == Axis::key ? in_plane : in_tile;
    };
    set(info.row_axis, point.row, place.row, &Cursor::unit);
    if (col_axis_of(problem, plane.stage) != ViewAxis::unit)
        set(info.col_axis, point.col, place.col,
            info.col_axis == Axis::feature ? &Cursor::feature : &Cursor::lane);
    // The blocks, where that is all a stage knows of the row and the key.
    if (info.per_q_block && !walks_queries(info) && cursor.row / problem.block_m != place.tile.q_block)
        cursor.row = place.tile.q_block * problem.block_m;
    if (info.per_kv_tile && !walks_keys(info) && cursor.key / problem.block_n != place.tile.kv_tile)
        cursor.key = place.tile.kv_tile * problem.block_n;
    return cursor;
}

Cursor cursor_at(const Problem& problem, Stage stage, const Element& element) {
    const PlaceInPlane place = place_in_plane(problem, stage, element);
    return cursor_at(problem, {}, place.plane, {place.row, place.col});
}

Target target_from(const Recording& recording, const std::string& text) {
    std::string commas = text;
    const std::size_t colon = commas.find(':');
    if (colon != std::string::npos) commas[colon] = ',';
    const std::string where = "--goto " + text;
    const ElementPlace place = element_place(recording, commas, where);
    if (!recording.has_stage(place.stage)) {
        std::string recorded;
        for (const StageInfo& info : stages_of(recording.problem())) {
            if (recording.has_stage(info.stage))
                recorded += (recorded.empty() ? "" : ", ") + std::string(info.name);
        }
        throw Error(std::string(stage_info(recording.problem(), place.stage).name) + " was not recorded",
                    where, "name one of " + recorded);
    }
    const PlaceInPlane found = place_in_plane(recording.problem(), place);
    return {place.stage, cursor_at(recording.problem(), {}, found.plane, {found.row, found.col})};
}

void limit(AxisRange& range, const AxisExtent& axis) {
    range.size = std::clamp(range.size, std::min(smallest_range, axis.length), axis.largest);
    range.first = std::clamp(range.first, -range.size / 2, axis.length - range.size / 2);
}

AxisRange range_around(double place, double size, double length) {
    AxisRange range{0, std::min(size, length)};
    range.first = std::clamp(place + 0.5 - range.size / 2, 0.0, length - range.size);
    return range;
}

void reveal(AxisRange& range, double place, const AxisExtent& axis) {
    const double margin = std::min(range.size / 8, 8.0);
    if (place < range.first + margin) range.first = place - margin;
    if (place + 1 > range.last() - margin) range.first = place + 1 + margin - range.size;
    // One that fits is seen whole.
    if (range.size >= axis.length) range.first = 0;
    limit(range, axis);
}

void zoom(AxisRange& range, double factor, double place, const AxisExtent& axis) {
    const double share = (place - range.first) / range.size;
    const double size = range.size;
    range.size *= factor;
    limit(range, axis);
    if (range.size != size) range.first = place - share * range.size;
    limit(range, axis);
}

void ViewRanges::fit(const Problem& problem) {
    for (int axis = 0; axis < view_axis_count; ++axis)
        ranges_[std::size_t(axis)] = {0, double(length_of(problem, ViewAxis(axis)))};
}

void ViewRanges::centre_on(const Problem& problem, const Cursor& cursor) {
    fit(problem);
    const auto centre = [&](ViewAxis axis, std::int64_t place) {
        const double size = opening_tiles * double(tile_length_of(problem, axis));
        at(axis) = range_around(double(place), size, double(length_of(problem, axis)));
    };
    // Only what is longer than a tile: features fill the picture.
    centre(ViewAxis::query, cursor.row);
    centre(ViewAxis::key, cursor.key);
}

void ViewRanges::show(const Problem& problem, const Cursor& cursor, Stage stage) {
    const PlanePoint point = point_at(problem, cursor, stage);
    const auto show_at = [&](ViewAxis axis, double place) {
        reveal(at(axis), place, extent_of(problem, axis));
    };
    show_at(row_axis_of(problem, stage), double(point.row));
    show_at(col_axis_of(problem, stage), double(point.col) / columns_of_unit(problem, stage));
}

void ViewRanges::zoom(const Problem& problem, Stage stage, double factor, double row, double col) {
    const double lanes = columns_of_unit(problem, stage);
    const auto about = [&](ViewAxis axis, double place) {
        viewer::zoom(at(axis), factor, place, extent_of(problem, axis));
    };
    about(row_axis_of(problem, stage), row);
    about(col_axis_of(problem, stage), col / lanes);
}

PlaneView ViewRanges::view(const Problem& problem, Stage stage) const {
    const AxisRange& rows = of(row_axis_of(problem, stage));
    const AxisRange& cols = of(col_axis_of(problem, stage));
    const double lanes = columns_of_unit(problem, stage);
    return {rows.first, cols.first * lanes, rows.size, cols.size * lanes};
}

void ViewRanges::pan(const Problem& problem, Stage stage, double rows, double cols) {
    const double lanes = columns_of_unit(problem, stage);
    at(row_axis_of(problem, stage)).first += rows;
    at(col_axis_of(problem, stage)).first += cols / lanes;
    for (const ViewAxis axis : {row_axis_of(problem, stage), col_axis_of(problem, stage)})
        limit(at(axis), extent_of(problem, axis));
}

}  // namespace tilescope::viewer
