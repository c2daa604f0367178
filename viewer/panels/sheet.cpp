// The picture of a declared stage: its last two axes as rows and columns.

#include <algorithm>
#include <cmath>

#include "oracle/heatmap/worst.h"
#include "oracle/report/text.h"
#include "viewer/panels/pane_frame.h"
#include "viewer/panels/words.h"
#include "viewer/state/declared_words.h"

namespace tilescope::viewer {

namespace {

constexpr double zoom_of_wheel = 0.85;

std::string name_of_dim(const App& app, int number) {
    const StageDim dim = dims_shown(app)[std::size_t(number)];
    const std::string& axis = app.declared.kernel().program().axes[std::size_t(dim.axis)].name;
    return dim.blocks ? "blocks of " + axis : axis;
}

/// "n down, m across".
std::string axes_text(const App& app, const Sheet& sheet) {
    std::string line;
    if (sheet.rows >= 0) line = name_of_dim(app, sheet.rows) + " down";
    if (sheet.cols >= 0) line += (line.empty() ? "" : ", ") + name_of_dim(app, sheet.cols) + " across";
    return line;
}

PaneFrame frame_in(const App& app, const Box& area) {
    const float letter = ImGui::CalcTextSize("0").x;
    PaneFrame pane;
    pane.shape = shape_of_sheet(app);
    pane.quantity = quantity_of_sheet(app);
    pane.view = view_of_sheet(app);
    const auto digits = float(std::max<std::size_t>(3, std::to_string(pane.shape.rows).size()));
    pane.at = {std::round(area.x + letter * (digits + 1)), std::round(area.y + 2.7F * ImGui::GetFontSize())};
    pane.size = {std::floor(area.x + area.width - pane.at.x), std::floor(area.y + area.height - pane.at.y)};
    return pane;
}

void use_mouse(App& app, const PaneFrame& pane) {
    const ImGuiIO& io = ImGui::GetIO();
    const PlanePoint point{std::int64_t(std::floor(pane.row_at(io.MousePos.y))),
                           std::int64_t(std::floor(pane.col_at(io.MousePos.x)))};
    if (ImGui::IsItemHovered()) {
        const bool inside =
            point.row >= 0 && point.col >= 0 && point.row < pane.shape.rows && point.col < pane.shape.cols;
        if (inside) app.declared.hovered = point;
        if (io.MouseWheel != 0)
            zoom_sheet(app, std::pow(zoom_of_wheel, double(io.MouseWheel)), pane.row_at(io.MousePos.y),
                       pane.col_at(io.MousePos.x));
        const bool still = io.MouseDragMaxDistanceSqr[0] < io.MouseDragThreshold * io.MouseDragThreshold;
        if (ImGui::IsMouseReleased(ImGuiMouseButton_Left) && still) select_in_sheet(app, point);
        if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) zoom_sheet_to_element(app);
    }
    if (ImGui::IsItemHovered() && is_right_click()) app.view.region.reset();
    if (ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Right)) {
        const std::optional<Rect> region = dragged_region(pane);
        if (region) app.view.region = region;
    }
    if (ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Left))
        pan_sheet(app, -double(io.MouseDelta.y) / pane.row_height(),
                  -double(io.MouseDelta.x) / pane.col_width());
}

void draw_titles(App& app, ImDrawList& draw, const PaneFrame& pane) {
    const float em = ImGui::GetFontSize();
    const Program& program = app.declared.kernel().program();
    const int stage = app.declared.stage;
    const std::string axes = axes_text(app, sheet_shown(app));
    const float y = pane.at.y - 2.6F * em;
    const float room = pane.size.x - ImGui::CalcTextSize(axes.c_str()).x - em;
    const std::string title = fmt::format("{}   {} = {}", quantity_info(pane.quantity).name,
                                          heading_of(program, stage), formula_of(program, stage));
    text_at(app, draw, {pane.at.x, y}, title, colours::text, room);
    text_at(app, draw, {pane.end().x - ImGui::CalcTextSize(axes.c_str()).x, y}, axes, colours::dim);
}

ImageStyle style_of(App& app, const std::shared_ptr<const Pyramid>& shown, Quantity quantity) {
    const Quantity scaled = scaled_as(quantity);
    const bool of_dumped = scaled == Quantity::dumped && quantity != scaled;
    std::shared_ptr<const Pyramid> basis = of_dumped ? ask_picture_of_sheet(app, scaled) : shown;
    // Of what was not stored nothing was dumped.
    if (basis == nullptr || !basis->whole().has(Kind::finite)) basis = shown;
    ColourMap colours = app.settings.scales[std::size_t(scaled)].colours;
    if (basis != nullptr && colours == quantity_info(scaled).colours)
        colours = fitting_colours(*basis, scaled);
    return {scale_for(app, app.panes[0], basis, scaled), colours, mark_pixels()};
}

std::string number_of(const StageElement& element, Quantity quantity, Dtype dtype) {
    const ElementValue value = value_of(element, quantity, dtype);
    if (has_number(value)) return text_of_value(value, quantity);
    return quantity_info(quantity).computed_as == Quantity::expected ? short_number(element.expected)
                                                                     : std::string();
}

void draw_numbers(App& app, ImDrawList& draw, const PaneFrame& pane, const StageValues& values) {
    const NumbersRoom room = room_for_numbers(pane);
    if (room == NumbersRoom::none) return;
    const Rect seen = pane.visible();
    const Sheet sheet = sheet_shown(app);
    for (std::int64_t row = seen.first_row; row < seen.last_row; ++row) {
        for (std::int64_t col = seen.first_col; col < seen.last_col; ++col) {
            const StageElement element = values.at(sheet, row, col);
            std::vector<std::string> lines = {number_of(element, pane.quantity, values.dtype)};
            if (room == NumbersRoom::full)
                lines = {number_of(element, Quantity::dumped, values.dtype),
                         number_of(element, Quantity::expected, values.dtype)};
            draw_numbers_at(app, draw, pane, {row, col}, lines);
        }
    }
}

void draw_pane(App& app, ImDrawList& draw, const PaneFrame& pane,
               const std::shared_ptr<const StageValues>& values,
               const std::shared_ptr<const Pyramid>& picture, const ImageStyle& style) {
    if (picture == nullptr) {
        draw.AddRectFilled(pane.at, pane.end(), colours::canvas);
        return text_at(app, draw, pane.at + ImVec2(12, 12), why_no_values(app, app.declared.stage),
                       colours::dim, pane.size.x - 24);
    }
    HeatmapPane& heatmap = app.panes[0];
    const TextureName texture = heatmap.texture(
        {picture, DetailTiles(), pane.view, style, int(pane.size.x), int(pane.size.y)}, app.pictures_at_once);
    if (heatmap.waits()) app.waits = true;
    draw.PushClipRect(pane.at, pane.end(), true);
    draw_picture(draw, pane, picture, texture, heatmap.shown());
    if (app.settings.tile_grid) draw_tile_grid(draw, pane);
    draw_rings(draw, pane, *picture);
    draw_numbers(app, draw, pane, *values);
    draw_cursor(draw, pane, point_in_sheet(app));
    if (app.view.region) draw_region(draw, pane, *app.view.region);
    draw.PopClipRect();
}

/// What the picture is of, with its verdict and its worst element.
Figure figure_of(App& app, const PaneFrame& pane, const StageValues& values) {
    const DeclaredKernel& kernel = app.declared.kernel();
    const int stage = app.declared.stage;
    const HeatmapPane& heatmap = app.panes[0];
    Figure figure = figure_of_pane(pane, heatmap);
    const std::string& name = kernel.program().array(stage).name;
    figure.title = {
        fmt::format("{}: {}{}", sheet_text(app), quantity_info(pane.quantity).name, part_text(figure)),
        fmt::format("{}: {}", name, word_of(state_of(kernel, stage)).says), name_of_recording(app)};
    figure.axes = axes_text(app, sheet_shown(app));
    figure.unit = unit_text(name, figure, false);
    const auto over_budget = ask_picture_of_sheet(app, against(app.view.against, Quantity::over_budget));
    if (over_budget == nullptr || values.worst.empty()) return figure;
    const std::optional<Rect> worst = worst_cell(*over_budget, pane.visible());
    if (!worst) return figure;
    const StageElement element = values.at(sheet_shown(app), worst->first_row, worst->first_col);
    const bool is_one = worst->last_row - worst->first_row == 1 && worst->last_col - worst->first_col == 1;
    ring_around(*worst, nullptr,
                is_one ? fmt::format("got {}, expected {}",
                                     nobody_wrote(element.got) ? "unwritten" : digits_of(element.got),
                                     expected_text(values.dtype, element.expected, element.tolerance))
                       : "",
                figure);
    return figure;
}

void write_png_of(App& app, const PaneFrame& pane, const std::shared_ptr<const StageValues>& values,
                  const std::shared_ptr<const Pyramid>& picture) {
    const std::string path = std::exchange(app.png, {});
    app.notice.clear();
    if (picture == nullptr || picture != app.panes[0].shown().pyramid)
        app.notice = "there is no heatmap to write";
    else
        write_figure(app, path, figure_of(app, pane, *values), app.panes[0]);
}

}  // namespace

void draw_sheet(App& app, const Box& box) {
    const PanelScope panel(app, "heatmaps", box, ImGuiWindowFlags_NoScrollWithMouse);
    const float pad = 0.8F * ImGui::GetFontSize();
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    app.declared.hovered.reset();
    const auto values = ask_values(app, app.declared.stage);
    Quantity quantity = quantity_of_sheet(app);
    if (app.view.flipped && quantity == Quantity::dumped)
        quantity = against(app.view.against, Quantity::expected);
    const auto picture = ask_picture_of_sheet(app, quantity);
    const KindFlags kinds = picture == nullptr ? KindFlags(0) : picture->whole().kinds;
    const float legend = legend_height(app, box.width - 2 * pad, kinds);
    const Box area{box.x + pad, box.y + 0.4F * pad, box.width - 2 * pad, box.height - legend - 2 * pad};
    PaneFrame pane = frame_in(app, area);
    pane.quantity = quantity;
    if (pane.size.x < 16 || pane.size.y < 16) return;
    app.readout.place("heatmap", {pane.at.x, pane.at.y, pane.size.x, pane.size.y});
    ImGui::SetCursorScreenPos(pane.at);
    ImGui::InvisibleButton("pane", pane.size,
                           ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
    use_mouse(app, pane);
    draw_titles(app, draw, pane);
    draw_axes(draw, pane);
    const ImageStyle style = style_of(app, picture, quantity);
    draw_pane(app, draw, pane, values, picture, style);
    app.shown_scale = style.scale;
    draw_legend(app, draw, {area.x, box.y + box.height - legend - 0.6F * pad, area.width, legend}, kinds,
                quantity, style);
    if (!app.png.empty()) write_png_of(app, pane, values, picture);
}

}  // namespace tilescope::viewer
