#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "oracle/heatmap/heatmap_image.h"
#include "oracle/heatmap/plane.h"

namespace tilescope::viewer {

/// The place that is looked at. Every stage has an element there, so that stages can be compared at it.
struct Cursor {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;  ///< q row
    std::int64_t key = 0;
    std::int64_t feature = 0;  ///< column of q, k, v, acc and o, and of named tiles that walk along features
    std::int64_t lane = 0;     ///< of l, and of named tiles with several columns for each KV tile
    std::int64_t unit = 0;     ///< row in the tile, of named tiles whose rows are neither q rows nor keys

    bool operator==(const Cursor&) const = default;
};

struct PlanePoint {
    std::int64_t row = 0;
    std::int64_t col = 0;
    bool operator==(const PlanePoint&) const = default;
};

/// The head of the stage's tensor that holds query head `head`: its KV head, where dk and dv are of those.
std::int64_t head_in(const Problem& problem, Stage stage, std::int64_t head);
/// A query head of the stage's head: `before`, where it is one of them.
std::int64_t query_head_in(const Problem& problem, Stage stage, std::int64_t head, std::int64_t before);

/// The stage's plane through the cursor, and the cursor's element in it.
Plane plane_at(const Problem& problem, const Cursor& cursor, Stage stage);
PlanePoint point_at(const Problem& problem, const Cursor& cursor, Stage stage);
/// The cursor at an element of a plane, clamped to it. What the stage has no coordinate for stays.
Cursor cursor_at(const Problem& problem, const Cursor& before, const Plane& plane, PlanePoint point);
Cursor cursor_at(const Problem& problem, Stage stage, const Element& element);

/// STAGE:BATCH,HEAD,ROW,COL[,KV_TILE], as --goto has it: coordinates as --explain-tolerance takes them.
/// Errors: Error for wrong text, for coordinates that the recording's problem does not have, and for a stage
/// that was not recorded.
struct Target {
    Stage stage = Stage::s;
    Cursor cursor;
};
Target target_from(const Recording& recording, const std::string& text);

/// What a plane's rows or columns count. Planes with the same axis are zoomed and moved together.
/// Axes that the problem has no name for follow `unit`: one for the rows of each named tile, then one for the
/// columns of each.
enum class ViewAxis : std::uint8_t { query, key, feature, value, tile, unit };
inline constexpr int shared_axis_count = 6;
inline constexpr int view_axis_count = shared_axis_count + 2 * max_named_tiles;
ViewAxis row_axis_of(const Problem& problem, Stage stage);
ViewAxis col_axis_of(const Problem& problem, Stage stage);
std::string_view label_of(ViewAxis axis);

/// The part of an axis that is shown, in elements.
struct AxisRange {
    double first = 0;
    double size = 1;

    double last() const { return first + size; }
    double middle() const { return first + size / 2; }
    bool operator==(const AxisRange&) const = default;
};

/// An axis that is shown: how long it is, and how many elements may be shown of it at most.
struct AxisExtent {
    double length = 1;
    double largest = 1;
};
/// Keeps at least the middle of what is shown on the axis.
void limit(AxisRange& range, const AxisExtent& axis);
/// So many elements with `place` in the middle, or as near to it as the picture stays full.
AxisRange range_around(double place, double size, double length);
/// Moves as little as is needed for `place` to be seen.
void reveal(AxisRange& range, double place, const AxisExtent& axis);
/// What is at `place` stays where it is.
void zoom(AxisRange& range, double factor, double place, const AxisExtent& axis);

/// The parts of all axes that are shown.
class ViewRanges {
 public:
    /// All of the problem.
    void fit(const Problem& problem);
    /// About two tiles each way, with the cursor as near to the middle as the edges let it.
    void centre_on(const Problem& problem, const Cursor& cursor);
    /// Moves as little as is needed for the cursor to be seen.
    void show(const Problem& problem, const Cursor& cursor, Stage stage);
    /// `factor` below 1 zooms in; what is at (row, col) stays where it is.
    void zoom(const Problem& problem, Stage stage, double factor, double row, double col);
    void pan(const Problem& problem, Stage stage, double rows, double cols);
    PlaneView view(const Problem& problem, Stage stage) const;
    const AxisRange& of(ViewAxis axis) const { return ranges_[std::size_t(axis)]; }

 private:
    AxisRange& at(ViewAxis axis) { return ranges_[std::size_t(axis)]; }

    std::array<AxisRange, view_axis_count> ranges_;
};

/// Elements that the axis has.
std::int64_t length_of(const Problem& problem, ViewAxis axis);
/// Elements of a tile along the axis.
std::int64_t tile_length_of(const Problem& problem, ViewAxis axis);

}  // namespace tilescope::viewer
