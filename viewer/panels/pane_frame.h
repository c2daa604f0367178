#pragma once

#include "oracle/heatmap/figure.h"
#include "viewer/panels/panel.h"

namespace tilescope::viewer {

/// One heatmap as it stands in the window: from elements to pixels and back.
struct PaneFrame {
    Plane plane;
    PlaneShape shape;
    Quantity quantity = Quantity::dumped;
    PlaneView view;
    ImVec2 at;    ///< top left corner of the picture
    ImVec2 size;  ///< pixels

    float row_height() const { return float(size.y / view.rows); }
    float col_width() const { return float(size.x / view.cols); }
    float y_of(double row) const { return at.y + float((row - view.first_row) / view.rows * size.y); }
    float x_of(double col) const { return at.x + float((col - view.first_col) / view.cols * size.x); }
    double row_at(float y) const { return view.first_row + (y - at.y) / double(size.y) * view.rows; }
    double col_at(float x) const { return view.first_col + (x - at.x) / double(size.x) * view.cols; }
    ImVec2 end() const { return at + size; }
    /// Where other elements of the plane lie; exactly the pane's pixels where they are its own.
    Box box_of(const PlaneView& elements) const;

    /// Rows and columns of the plane that are seen, whole ones.
    Rect visible() const;
};

/// What the lines of warps and lanes are.
enum class ThreadLines : std::uint8_t {
    grid,       ///< chosen by hand: the recording does not declare the stage's threads
    declared,   ///< of the threads that own the elements
    too_small,  ///< too many elements are shown to look up their owners
};
ThreadLines thread_lines(const App& app, Stage stage);
/// Nullopt where the recording does not declare them.
std::optional<ThreadMap> threads_of(const App& app, Stage stage);
Owner owner_at_cursor(const App& app, const ThreadMap& threads, Stage stage);
/// Whether elements are to be told apart by the threads that own them.
bool wants_tint(const App& app);
/// Null where they are not, or cannot be.
std::shared_ptr<const Tint> tint_of(App& app, std::size_t index, const PaneFrame& pane);
/// The pane's texture. Until the picture of its elements is there, one of others lies where those are. Pixels past the edge of the plane
/// are transparent.
void draw_picture(ImDrawList& draw, const PaneFrame& pane, const std::shared_ptr<const Pyramid>& pyramid,
                  TextureName texture, const HeatmapPane::Contents& shown);
/// Lines of the tile grid.
void draw_tile_grid(ImDrawList& draw, const PaneFrame& pane);
/// Lines of the tile grid, the mask's edges, warps and lanes, as the settings ask for.
void draw_overlays(const App& app, ImDrawList& draw, const PaneFrame& pane);
/// Around a rectangle, light with a dark edge to be seen on every colour; whole inside of the second one.
void draw_rim(ImDrawList& draw, ImVec2 at, ImVec2 end, ImVec2 inside_at, ImVec2 inside_end);
/// Rings around elements that are no numbers, where they are few and too small to be seen.
void draw_rings(ImDrawList& draw, const PaneFrame& pane, const Pyramid& pyramid);
/// An element and its row.
void draw_cursor(ImDrawList& draw, const PaneFrame& pane, const PlanePoint& point);
/// Elements between where the right button went down and where the pointer is; nullopt outside.
std::optional<Rect> dragged_region(const PaneFrame& pane);
/// Whether the right button was released where it went down.
bool is_right_click();
void draw_region(ImDrawList& draw, const PaneFrame& pane, const Rect& region);
/// The cursor's element and row, the region.
void draw_selection(const App& app, ImDrawList& draw, const PaneFrame& pane);
/// What cells have room for: dumped, expected and bits, what the pane shows, or nothing.
enum class NumbersRoom : std::uint8_t { none, one, full };
NumbersRoom room_for_numbers(const PaneFrame& pane);
/// In the middle of a cell, one below the other.
void draw_numbers_at(App& app, ImDrawList& draw, const PaneFrame& pane, const PlanePoint& point,
                     const std::vector<std::string>& lines);
/// Numbers in the cells, where they have room: dumped, expected and bits, or what the pane shows.
void draw_numbers(App& app, ImDrawList& draw, const PaneFrame& pane, const DetailTiles& details);
/// The pane as it is shown, without words.
Figure figure_of_pane(const PaneFrame& pane, const HeatmapPane& heatmap);
/// Writes it as PNG, and says so; false where that fails.
bool write_figure(App& app, const std::string& path, const Figure& figure, const HeatmapPane& heatmap);
/// Row and column numbers along the left and top edge.
void draw_axes(ImDrawList& draw, const PaneFrame& pane);
/// The colours of a map from end to end.
void draw_colours(ImDrawList& draw, const Box& box, ColourMap map);
/// The pattern of a kind, pixel by pixel as pictures have it, with a rim: some are as dark as the ground.
void draw_swatch(ImDrawList& draw, ImVec2 at, Kind kind, int size, int mark_pixels);
/// The mark of conflicting writes.
void draw_cross(ImDrawList& draw, const Box& box);
/// The legend takes as many lines as the width asks for. `shown` are the kinds in the panes.
float legend_height(const App& app, float width, KindFlags shown);
/// The colours of the scale, and the marks that occur in the panes or in the map.
void draw_legend(App& app, ImDrawList& draw, const Box& box, KindFlags shown, Quantity quantity,
                 const ImageStyle& style);

}  // namespace tilescope::viewer
