// The sheets of a declared stage as a map: a cell for each, in the colour of its worst element.

#include <algorithm>
#include <cmath>

#include "viewer/panels/pane_frame.h"
#include "viewer/panels/words.h"

namespace tilescope::viewer {

namespace {

std::string name_of_map_dim(const App& app, const StageDim& dim) {
    const std::string& axis = app.declared.kernel().program().axes[std::size_t(dim.axis)].name;
    return dim.blocks ? "blocks of " + axis : axis;
}

/// "Map of h: blocks of i across, b down".
std::string title_of_map(const App& app, const StageValues& values) {
    const auto name = [&](int dim) { return name_of_map_dim(app, values.dims[std::size_t(dim)]); };
    std::string down;
    for (const int dim : values.map.down) down += (down.empty() ? "" : ", ") + name(dim);
    return fmt::format("Map of {}: {} across{}", app.declared.array().name, name(values.map.across),
                       down.empty() ? "" : ", " + down + " down");
}

/// Where an element is on the map.
PlanePoint point_on_map(const StageValues& values, const std::vector<std::int64_t>& index) {
    PlanePoint point{0, index[std::size_t(values.map.across)]};
    for (const int dim : values.map.down)
        point.row = point.row * values.dims[std::size_t(dim)].extent + index[std::size_t(dim)];
    return point;
}

/// The element at the same row and column of another sheet.
std::vector<std::int64_t> index_in_sheet(const StageValues& values, std::vector<std::int64_t> index,
                                         const PlanePoint& point) {
    index[std::size_t(values.map.across)] = point.col;
    std::int64_t row = point.row;
    for (std::size_t i = values.map.down.size(); i > 0; --i) {
        const auto dim = std::size_t(values.map.down[i - 1]);
        index[dim] = row % values.dims[dim].extent;
        row /= values.dims[dim].extent;
    }
    return index;
}

/// What stands in a cell, as "b 1, k block 2: 171 x budget".
std::string says_of_sheet(const App& app, const StageValues& values, const PlanePoint& point) {
    const std::vector<std::int64_t> index = index_in_sheet(values, index_shown(app), point);
    // What is across is the last of them, or the blocks, which come last in coordinates.
    std::vector<int> named = values.map.down;
    named.push_back(values.map.across);
    std::string line;
    for (const int dim : named) {
        const StageDim& along = values.dims[std::size_t(dim)];
        line += fmt::format("{}{} {}{}", line.empty() ? "" : ", ",
                            app.declared.kernel().program().axes[std::size_t(along.axis)].name,
                            along.blocks ? "block " : "", index[std::size_t(dim)]);
    }
    const Summary found = values.map.picture->worst_of({point.row, point.col, point.row + 1, point.col + 1});
    const Kind kind = tilescope::worst_of(found.kinds);
    return kind == Kind::finite ? fmt::format("{}: {} x budget", line, quotient_text(double(found.max)))
                                : fmt::format("{}: {}", line, kind_style(kind).name);
}

void use_mouse_on_map(App& app, const StageValues& values, const PaneFrame& pane) {
    if (!ImGui::IsItemHovered()) return;
    const ImVec2 pointer = ImGui::GetIO().MousePos;
    const PlanePoint point{
        std::clamp<std::int64_t>(std::int64_t(pane.row_at(pointer.y)), 0, pane.shape.rows - 1),
        std::clamp<std::int64_t>(std::int64_t(pane.col_at(pointer.x)), 0, pane.shape.cols - 1)};
    tooltip(app, says_of_sheet(app, values, point));
    if (ImGui::IsMouseReleased(ImGuiMouseButton_Left))
        go_to_declared(app, app.declared.stage, index_in_sheet(values, index_shown(app), point), true);
}

}  // namespace

void draw_sheet_map(App& app, const StageValues& values, float most_height) {
    const float em = ImGui::GetFontSize();
    title(app, title_of_map(app, values));
    const Pyramid& picture = *values.map.picture;
    PaneFrame pane;
    pane.shape = {picture.rows(), picture.cols(), 1, 1};
    pane.view = {0, 0, double(picture.rows()), double(picture.cols())};
    // Room for the numbers of rows and columns.
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    pane.at = {std::round(corner.x + 2.5F * em), std::round(corner.y + 1.2F * em)};
    const auto side = [&](float room, std::int64_t count) {
        return std::floor(std::min(room, 3 * em * float(count)));
    };
    pane.size = {side(ImGui::GetContentRegionAvail().x - 2.5F * em, picture.cols()),
                 side(most_height - 4 * em, picture.rows())};
    if (pane.size.x < 8 || pane.size.y < 8) return;
    app.readout.place("map picture", {pane.at.x, pane.at.y, pane.size.x, pane.size.y});
    ImGui::SetCursorScreenPos(pane.at);
    ImGui::InvisibleButton("sheets", pane.size);
    use_mouse_on_map(app, values, pane);
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    HeatmapPane& heatmap = app.panes[1];
    const ImageStyle style{scale_for(app, heatmap, values.map.picture, Quantity::over_budget),
                           app.settings.scales[std::size_t(Quantity::over_budget)].colours, mark_pixels()};
    const TextureName texture = heatmap.texture(
        {values.map.picture, DetailTiles(), pane.view, style, int(pane.size.x), int(pane.size.y)},
        app.pictures_at_once);
    if (heatmap.waits()) app.waits = true;
    draw_axes(draw, pane);
    draw.PushClipRect(pane.at, pane.end(), true);
    draw_picture(draw, pane, values.map.picture, texture, heatmap.shown());
    draw_cursor(draw, pane, point_on_map(values, index_shown(app)));
    draw.PopClipRect();
    ImGui::Dummy({0, 0.8F * em});
}

}  // namespace tilescope::viewer
