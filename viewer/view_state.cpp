#include "viewer/view_state.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "dump/error.h"
#include "oracle/explain.h"

namespace tilescope::viewer {

namespace {

constexpr double smallest_range = 2;
/// Tiles that are shown each way at the first divergence.
constexpr double opening_tiles = 2;

std::int64_t clamped(std::int64_t value, std::int64_t count) {
    return std::clamp<std::int64_t>(value, 0, count - 1);
}

/// Columns of the stage's plane for one step of its axis: lanes, where a KV tile has several.
double columns_of_unit(const Problem& problem, Stage stage) {
    return col_axis_of(stage) == ViewAxis::tile ? double(plane_shape(problem, stage).tile_cols) : 1;
}

struct AxisName {
    ViewAxis axis;
    std::string_view label;
};
constexpr std::array<AxisName, view_axis_count> axis_names = {{
    {ViewAxis::query, "q row"},
    {ViewAxis::key, "key"},
    {ViewAxis::feature, "column"},
    {ViewAxis::value, "column"},
    {ViewAxis::tile, "KV tile"},
    {ViewAxis::unit, ""},
}};

}  // namespace

ViewAxis row_axis_of(Stage stage) {
    return stage_info(stage).row_axis == Axis::key ? ViewAxis::key : ViewAxis::query;
}

ViewAxis col_axis_of(Stage stage) {
    switch (stage) {
        case Stage::q:
        case Stage::k:
        case Stage::dq:
        case Stage::dk:
            return ViewAxis::feature;
        case Stage::v:
        case Stage::acc:
        case Stage::o:
        case Stage::dout:
        case Stage::dv:
            return ViewAxis::value;
        case Stage::m:
        case Stage::l:
            return ViewAxis::tile;
        case Stage::lse:
        case Stage::delta:
            return ViewAxis::unit;
        default:
            return ViewAxis::key;
    }
}

std::string_view label_of(ViewAxis axis) {
    return axis_names[std::size_t(axis)].label;
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
        default:
            return 1;
    }
}

std::int64_t tile_length_of(const Problem& problem, ViewAxis axis) {
    if (axis == ViewAxis::query) return problem.block_m;
    if (axis == ViewAxis::key) return problem.block_n;
    return axis == ViewAxis::tile ? 1 : length_of(problem, axis);
}

std::int64_t head_in(const Problem& problem, Stage stage, std::int64_t head) {
    return head / (problem.heads / stage_heads(problem, stage));
}

std::int64_t query_head_in(const Problem& problem, Stage stage, std::int64_t head, std::int64_t before) {
    const HeadRange heads = query_heads(problem, stage, head);
    return before >= heads.first && before < heads.last ? before : heads.first;
}

Plane plane_at(const Problem& problem, const Cursor& cursor, Stage stage) {
    Plane plane{stage, cursor.batch, head_in(problem, stage, cursor.head), 0};
    if (stage == Stage::acc) plane.slice = cursor.key / problem.block_n;
    if (stage == Stage::k || stage == Stage::v) plane.slice = cursor.row / problem.block_m;
    return plane;
}

PlanePoint point_at(const Problem& problem, const Cursor& cursor, Stage stage) {
    const PlaneShape shape = plane_shape(problem, stage);
    PlanePoint point;
    point.row = row_axis_of(stage) == ViewAxis::key ? cursor.key : cursor.row;
    switch (col_axis_of(stage)) {
        case ViewAxis::key:
            point.col = cursor.key;
            break;
        case ViewAxis::tile:
            point.col =
                cursor.key / problem.block_n * shape.tile_cols + std::min(cursor.lane, shape.tile_cols - 1);
            break;
        case ViewAxis::unit:
            break;
        default:
            point.col = std::min(cursor.feature, shape.cols - 1);
    }
    return point;
}

Cursor cursor_at(const Problem& problem, const Cursor& before, const Plane& plane, PlanePoint point) {
    const PlaneShape shape = plane_shape(problem, plane.stage);
    point.row = clamped(point.row, shape.rows);
    point.col = clamped(point.col, shape.cols);
    Cursor cursor = before;
    cursor.batch = plane.batch;
    cursor.head = query_head_in(problem, plane.stage, plane.head, before.head);
    if (row_axis_of(plane.stage) == ViewAxis::key) {
        cursor.key = point.row;
        const bool sliced = stage_info(plane.stage).per_q_block;
        if (sliced && before.row / problem.block_m != plane.slice) cursor.row = plane.slice * problem.block_m;
    } else {
        cursor.row = point.row;
    }
    // The KV tile, where that is all a stage knows of the key.
    std::int64_t kv_tile = cursor.key / problem.block_n;
    switch (col_axis_of(plane.stage)) {
        case ViewAxis::key:
            cursor.key = point.col;
            return cursor;
        case ViewAxis::tile:
            kv_tile = point.col / shape.tile_cols;
            cursor.lane = point.col % shape.tile_cols;
            break;
        case ViewAxis::unit:
            break;
        default:
            cursor.feature = point.col;
            if (plane.stage == Stage::acc) kv_tile = plane.slice;
    }
    if (cursor.key / problem.block_n != kv_tile) cursor.key = kv_tile * problem.block_n;
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
    const ElementPlace place = element_place(recording, commas);
    const PlaceInPlane found = place_in_plane(recording.problem(), place);
    return {place.stage, cursor_at(recording.problem(), {}, found.plane, {found.row, found.col})};
}

void ViewRanges::fit(const Problem& problem) {
    for (int axis = 0; axis < view_axis_count; ++axis)
        ranges_[std::size_t(axis)] = {0, double(length_of(problem, ViewAxis(axis)))};
}

void ViewRanges::limit(const Problem& problem, ViewAxis axis) {
    AxisRange& range = at(axis);
    const double length = double(length_of(problem, axis));
    // Elements at the edge can be centred, too: half of what is shown may lie outside.
    const double largest = std::max(length, opening_tiles * double(tile_length_of(problem, axis)));
    range.size = std::clamp(range.size, std::min(smallest_range, length), largest);
    range.first = std::clamp(range.first, -range.size / 2, length - range.size / 2);
}

void ViewRanges::centre_on(const Problem& problem, const Cursor& cursor) {
    fit(problem);
    const auto centre = [&](ViewAxis axis, std::int64_t place) {
        const double size = opening_tiles * double(tile_length_of(problem, axis));
        const double length = double(length_of(problem, axis));
        at(axis) = {0, std::min(size, length)};
        // In the middle, or as near to it as the picture stays full.
        at(axis).first = std::clamp(double(place) + 0.5 - at(axis).size / 2, 0.0, length - at(axis).size);
    };
    // Only what is longer than a tile: features fill the picture.
    centre(ViewAxis::query, cursor.row);
    centre(ViewAxis::key, cursor.key);
}

void ViewRanges::show(const Problem& problem, const Cursor& cursor, Stage stage) {
    const PlanePoint point = point_at(problem, cursor, stage);
    const auto reveal = [&](ViewAxis axis, double place) {
        AxisRange& range = at(axis);
        const double margin = std::min(range.size / 8, 8.0);
        if (place < range.first + margin) range.first = place - margin;
        if (place + 1 > range.last() - margin) range.first = place + 1 + margin - range.size;
        if (range.size >= double(length_of(problem, axis))) range.first = std::max(range.first, 0.0);
        limit(problem, axis);
    };
    reveal(row_axis_of(stage), double(point.row));
    reveal(col_axis_of(stage), double(point.col) / columns_of_unit(problem, stage));
}

void ViewRanges::zoom(const Problem& problem, Stage stage, double factor, double row, double col) {
    const double lanes = columns_of_unit(problem, stage);
    const auto about = [&](ViewAxis axis, double place) {
        AxisRange& range = at(axis);
        const double share = (place - range.first) / range.size;
        const double size = range.size;
        range.size *= factor;
        limit(problem, axis);
        if (range.size != size) range.first = place - share * range.size;
        limit(problem, axis);
    };
    about(row_axis_of(stage), row);
    about(col_axis_of(stage), col / lanes);
}

PlaneView ViewRanges::view(const Problem& problem, Stage stage) const {
    const AxisRange& rows = of(row_axis_of(stage));
    const AxisRange& cols = of(col_axis_of(stage));
    const double lanes = columns_of_unit(problem, stage);
    return {rows.first, cols.first * lanes, rows.size, cols.size * lanes};
}

void ViewRanges::pan(const Problem& problem, Stage stage, double rows, double cols) {
    const double lanes = columns_of_unit(problem, stage);
    at(row_axis_of(stage)).first += rows;
    at(col_axis_of(stage)).first += cols / lanes;
    limit(problem, row_axis_of(stage));
    limit(problem, col_axis_of(stage));
}

}  // namespace tilescope::viewer
