#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "oracle/heatmap/worst.h"
#include "oracle/report/text.h"
#include "viewer/panels/pane_frame.h"
#include "viewer/panels/words.h"
#include "viewer/state/causes_state.h"
#include "viewer/state/commands.h"

namespace tilescope::viewer {

namespace {

constexpr double wheel_step = 0.85;
/// Beyond so many elements each way a pixel is no single element, and their values are not fetched.
constexpr double most_detail = 2048;

struct PaneChoice {
    Stage stage;
    Quantity quantity;
    bool instead = false;  ///< of the quotient that was chosen
};

/// Where the budget is 0, as of operands, a quotient tells right from wrong and no more: the difference says how far off it is.
PaneChoice telling(App& app, const PaneChoice& choice) {
    if (quantity_info(choice.quantity).computed_as != Quantity::over_budget) return choice;
    const Reference reference = quantity_info(choice.quantity).against;
    if (reference == Reference::replay) return choice;
    const auto quotients =
        app.session.request(plane_at(app.problem(), app.view.cursor, choice.stage), choice.quantity);
    const bool flat =
        quotients != nullptr && quotients->smallest_magnitude() >= double(std::numeric_limits<float>::max());
    return flat ? PaneChoice{choice.stage, against(reference, Quantity::difference), true} : choice;
}

std::vector<PaneChoice> panes_for(const ViewState& view, Direction direction) {
    switch (view.layout) {
        case Layout::compare:
            return {{view.stage, Quantity::dumped},
                    {view.stage, Quantity::expected},
                    {view.stage, Quantity::difference},
                    {view.stage, Quantity::over_budget}};
        case Layout::stages: {
            const bool backward = direction == Direction::backward;
            return {{Stage::s, view.quantity},
                    {Stage::p, view.quantity},
                    {backward ? Stage::dp : Stage::acc, view.quantity},
                    {backward ? Stage::ds : Stage::o, view.quantity}};
        }
        default:
            return {{view.stage, view.quantity}};
    }
}

std::vector<PaneChoice> panes_of(App& app) {
    std::vector<PaneChoice> choices = panes_for(app.view, app.problem().direction);
    if (!app.document->pair())
        for (PaneChoice& choice : choices) choice.quantity = against(app.view.against, choice.quantity);
    // Beside each other all of them are seen.
    if (app.view.layout == Layout::compare) return choices;
    for (PaneChoice& choice : choices) choice = telling(app, choice);
    return choices;
}

/// `alone`: no other pane says the same of its head.
std::string title_of(const App& app, const PaneFrame& pane, bool instead, bool alone) {
    const Problem& problem = app.problem();
    const StageInfo info = stage_info(problem, pane.plane.stage);
    std::string line(info.name);
    const Report* report = app.document->report.get();
    if (alone && report != nullptr && report->stage(pane.plane.stage).captured)
        line += fmt::format(" ({})", state_text(*report, pane.plane.stage));
    if (alone) line += fmt::format("  batch {}  head {}", pane.plane.batch, pane.plane.head);
    const TileId first = place_in_tile(problem, pane.plane, 0, 0).tile;
    const SliceKinds slices = slice_kinds(problem, pane.plane.stage);
    if (slices.kv_tiles) line += fmt::format("  KV tile {}", first.kv_tile);
    if (slices.q_blocks) line += fmt::format("  q block {}", first.q_block);
    return line +
           fmt::format("   {}{}", quantity_info(pane.quantity).name, instead ? ", as the budget is 0" : "");
}

void select_at(App& app, const PaneFrame& pane, ImVec2 pointer) {
    const PlanePoint point{std::int64_t(std::floor(pane.row_at(pointer.y))),
                           std::int64_t(std::floor(pane.col_at(pointer.x)))};
    app.placed_by_report = true;
    app.view.cursor = cursor_at(app.problem(), app.view.cursor, pane.plane, point);
    if (app.view.stage != pane.plane.stage) {
        app.view.stage = app.bad.list.stage = pane.plane.stage;
        app.view.region.reset();
    }
}

void choose_region(App& app, const PaneFrame& pane) {
    const std::optional<Rect> region = dragged_region(pane);
    if (!region) return;
    if (app.view.stage != pane.plane.stage) select_at(app, pane, ImGui::GetIO().MouseClickedPos[1]);
    app.view.region = region;
}

void handle_mouse(App& app, const PaneFrame& pane) {
    const ImGuiIO& io = ImGui::GetIO();
    const bool over = ImGui::IsItemHovered();
    if (over) {
        const auto row = std::int64_t(std::floor(pane.row_at(io.MousePos.y)));
        const auto col = std::int64_t(std::floor(pane.col_at(io.MousePos.x)));
        if (row >= 0 && col >= 0 && row < pane.shape.rows && col < pane.shape.cols) {
            app.hovered = {row, col};
            app.hovered_stage = pane.plane.stage;
        }
        if (io.MouseWheel != 0) {
            app.placed_by_report = true;
            app.view.ranges.zoom(app.problem(), pane.plane.stage, std::pow(wheel_step, double(io.MouseWheel)),
                                 pane.row_at(io.MousePos.y), pane.col_at(io.MousePos.x));
        }
    }
    if (ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Left)) {
        app.placed_by_report = true;
        app.view.ranges.pan(app.problem(), pane.plane.stage, -double(io.MouseDelta.y) / pane.row_height(),
                            -double(io.MouseDelta.x) / pane.col_width());
    }
    if (ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Right)) choose_region(app, pane);
    if (over && ImGui::IsMouseReleased(ImGuiMouseButton_Left) &&
        io.MouseDragMaxDistanceSqr[0] < io.MouseDragThreshold * io.MouseDragThreshold)
        select_at(app, pane, io.MousePos);
    if (over && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) zoom_to_element(app);
    if (over && is_right_click()) app.view.region.reset();
}

DetailTiles details_of(App& app, const PaneFrame& pane) {
    if (pane.view.rows > most_detail || pane.view.cols > most_detail)
        return {.plane = pane.plane, .shape = pane.shape, .quantity = pane.quantity, .tiles = {}};
    app.shown_details.push_back(app.session.request_detail(pane.plane, pane.quantity, pane.visible()));
    return app.shown_details.back();
}

/// With the key held that flips the layers.
Quantity flipped(const ViewState& view, Quantity quantity) {
    if (!view.flipped) return quantity;
    if (quantity == Quantity::dumped)
        return view.to_replay ? Quantity::replayed : against(view.against, Quantity::expected);
    return quantity == Quantity::replayed ? Quantity::dumped : quantity;
}

/// What stands where there is no picture.
std::string why_no_picture(App& app, const PaneFrame& pane) {
    if (!app.has(pane.plane.stage)) return "not captured";
    if (quantity_info(pane.quantity).against != Reference::replay) return "waiting";
    if (may_find_causes(app)) app.waits = true;
    return why_no_replay(app, pane.plane.stage);
}

ImageStyle style_of(App& app, HeatmapPane& heatmap, const PaneFrame& pane,
                    const std::shared_ptr<const Pyramid>& pyramid) {
    const Quantity quantity = scaled_as(pane.quantity);
    std::shared_ptr<const Pyramid> basis = pyramid;
    if (quantity == Quantity::dumped) {
        const auto dumped = app.session.request(pane.plane, quantity);
        if (dumped != nullptr) basis = dumped;
    }
    ColourMap colours = app.settings.scales[std::size_t(quantity)].colours;
    // Values of one sign have no middle; colours that somebody chose stay.
    if (basis != nullptr && colours == quantity_info(quantity).colours)
        colours = fitting_colours(*basis, quantity);
    return {scale_for(app, heatmap, basis, quantity), colours, mark_pixels()};
}

ImageStyle draw_pane(App& app, std::size_t index, PaneFrame pane) {
    HeatmapPane& heatmap = app.panes[index];
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const std::shared_ptr<const Pyramid> pyramid = app.session.request(pane.plane, pane.quantity);
    const ImageStyle style = style_of(app, heatmap, pane, pyramid);
    if (pyramid != nullptr && !pyramid->is_complete() && !app.status.written_over) app.waits = true;
    if (pyramid == nullptr) {
        draw.AddRectFilled(pane.at, pane.end(), colours::canvas);
        text_at(app, draw, pane.at + ImVec2(12, 12), why_no_picture(app, pane), colours::dim,
                pane.size.x - 24);
        return style;
    }
    const DetailTiles details = details_of(app, pane);
    const TextureName texture = heatmap.texture(
        {pyramid, details, pane.view, style, int(pane.size.x), int(pane.size.y), tint_of(app, index, pane)},
        app.pictures_at_once);
    if (heatmap.waits()) app.waits = true;
    draw.PushClipRect(pane.at, pane.end(), true);
    draw_picture(draw, pane, pyramid, texture, heatmap.shown());
    draw_overlays(app, draw, pane);
    draw_rings(draw, pane, *pyramid);
    draw_numbers(app, draw, pane, details);
    draw_selection(app, draw, pane);
    draw.PopClipRect();
    return style;
}

/// The picture inside its cell: room for the title and the numbers along the edges.
PaneFrame frame_of(App& app, const PaneChoice& choice, const Box& cell) {
    const float em = ImGui::GetFontSize();
    const float letter = ImGui::CalcTextSize("0").x;
    const Problem& problem = app.problem();
    PaneFrame pane;
    pane.plane = plane_at(problem, app.view.cursor, choice.stage);
    pane.shape = plane_shape(problem, choice.stage);
    pane.quantity = flipped(app.view, choice.quantity);
    pane.view = app.view.ranges.view(problem, choice.stage);
    const auto digits = float(std::max<std::size_t>(3, std::to_string(pane.shape.rows).size()));
    pane.at = {std::round(cell.x + letter * (digits + 1)), std::round(cell.y + 2.7F * em)};
    pane.size = {std::floor(cell.x + cell.width - pane.at.x), std::floor(cell.y + cell.height - pane.at.y)};
    return pane;
}

/// What the element holds, where its tile is at hand.
std::string held_at(const App& app, const DetailTiles& details, const Rect& cell) {
    const bool alone = cell.last_row - cell.first_row == 1 && cell.last_col - cell.first_col == 1;
    const DetailTile* tile =
        alone && !details.tiles.empty() ? details.at(cell.first_row, cell.first_col) : nullptr;
    if (tile == nullptr || app.document->report == nullptr) return "";
    const PlaceInTile place = place_in_tile(app.problem(), details.plane, cell.first_row, cell.first_col);
    return values_in(*app.document->report, tile->element(place.row, place.col));
}

/// Drawn as tile-diff draws its own.
Figure figure_of(App& app, const HeatmapPane& heatmap, const PaneFrame& pane) {
    Figure figure = figure_of_pane(pane, heatmap);
    const Document& document = *app.document;
    describe(*document.recording, document.other_recording.get(), document.report.get(), figure);
    const Reference reference = quantity_info(pane.quantity).against;
    const auto over_budget = app.session.request(pane.plane, against(reference, Quantity::over_budget));
    const auto worst = over_budget == nullptr ? std::nullopt : worst_cell(*over_budget, pane.visible());
    if (worst)
        ring_around(*worst, document.report.get(), held_at(app, heatmap.shown().details, *worst), figure);
    return figure;
}

void write_png_of(App& app, const std::vector<PaneFrame>& panes) {
    const std::string path = std::exchange(app.png, {});
    app.notice.clear();
    for (std::size_t i = 0; i < panes.size(); ++i) {
        const auto shown = app.session.request(panes[i].plane, panes[i].quantity);
        if (shown == nullptr || shown != app.panes[i].shown().pyramid) continue;
        std::string name = path;
        if (i > 0) name.insert(name.size() - 4, fmt::format("-pane{}", i + 1));
        if (!write_figure(app, name, figure_of(app, app.panes[i], panes[i]), app.panes[i])) return;
    }
    if (app.notice.empty()) app.notice = "there is no heatmap to write";
}

/// Above the picture; the pointer shows what there is no room for.
void draw_pane_title(App& app, ImDrawList& draw, const PaneFrame& pane, const std::string& title) {
    text_at(app, draw, {pane.at.x, pane.at.y - 2.6F * ImGui::GetFontSize()}, title, colours::text,
            pane.size.x);
}

/// What rows and columns count, at the right end of the title.
void name_axes(App& app, ImDrawList& draw, const PaneFrame& pane, const std::string& title) {
    const std::string across(label_of(col_axis_of(app.problem(), pane.plane.stage)));
    std::string line = fmt::format("{}s down", label_of(row_axis_of(app.problem(), pane.plane.stage)));
    if (!across.empty()) line += fmt::format(", {}s across", across);
    const float em = ImGui::GetFontSize();
    const float x = pane.end().x - ImGui::CalcTextSize(line.c_str()).x;
    if (x < pane.at.x + ImGui::CalcTextSize(title.c_str()).x + em) return;
    text_at(app, draw, {x, pane.at.y - 2.6F * em}, line, colours::dim);
}

/// Its own colours at the right end of the title, where it stands beside other panes.
void draw_small_scale(App& app, ImDrawList& draw, const PaneFrame& pane, const ImageStyle& style,
                      const std::string& title) {
    const float em = ImGui::GetFontSize();
    const std::string low = short_number(style.scale.low);
    const std::string high = short_number(style.scale.high);
    const float bar = 5 * em;
    const ImVec2 low_size = ImGui::CalcTextSize(low.c_str());
    const ImVec2 high_size = ImGui::CalcTextSize(high.c_str());
    const float width = low_size.x + high_size.x + bar + em;
    const float y = pane.at.y - 2.6F * em;
    float x = pane.end().x - width;
    if (x < pane.at.x + ImGui::CalcTextSize(title.c_str()).x + em) return;
    text_at(app, draw, {x, y}, low, colours::dim);
    x += low_size.x + 0.5F * em;
    draw_colours(draw, {x, y + 0.15F * em, bar, 0.8F * em}, style.colours);
    text_at(app, draw, {x + bar + 0.5F * em, y}, high, colours::dim);
}

Box cell_of(const Box& area, std::size_t count, std::size_t index) {
    if (count == 1) return area;
    const float gap = 0.8F * ImGui::GetFontSize();
    const float width = (area.width - gap) / 2;
    const float height = (area.height - gap) / 2;
    return {area.x + float(index % 2) * (width + gap), area.y + float(index / 2) * (height + gap), width,
            height};
}

/// That occur in the planes of the panes.
KindFlags kinds_in(App& app, const std::vector<PaneChoice>& choices) {
    KindFlags kinds = 0;
    for (const PaneChoice& choice : choices) {
        const Plane plane = plane_at(app.problem(), app.view.cursor, choice.stage);
        const auto pyramid = app.session.request(plane, flipped(app.view, choice.quantity));
        if (pyramid != nullptr) kinds |= pyramid->whole().kinds;
    }
    return kinds;
}

}  // namespace

void draw_heatmaps(App& app, const Box& box) {
    const PanelScope panel(app, "heatmaps", box, ImGuiWindowFlags_NoScrollWithMouse);
    const float em = ImGui::GetFontSize();
    const float pad = 0.8F * em;
    const std::vector<PaneChoice> choices = panes_of(app);
    const KindFlags kinds = kinds_in(app, choices);
    const float legend = legend_height(app, box.width - 2 * pad, kinds);
    const Box area{box.x + pad, box.y + 0.4F * pad, box.width - 2 * pad, box.height - legend - 2 * pad};
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    ImageStyle shown;
    Quantity shown_quantity = app.view.quantity;
    app.hovered.reset();
    app.shown_details.clear();
    std::vector<PaneFrame> panes;
    for (std::size_t i = 0; i < choices.size(); ++i) {
        const PaneFrame pane = frame_of(app, choices[i], cell_of(area, choices.size(), i));
        panes.push_back(pane);
        if (pane.size.x < 16 || pane.size.y < 16) continue;
        app.readout.place(i == 0 ? "heatmap" : fmt::format("heatmap {}", i + 1),
                          {pane.at.x, pane.at.y, pane.size.x, pane.size.y});
        ImGui::SetCursorScreenPos(pane.at);
        ImGui::InvisibleButton(fmt::format("pane {}", i).c_str(), pane.size,
                               ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
        handle_mouse(app, pane);
        const std::string title = title_of(app, pane, choices[i].instead, choices.size() == 1);
        draw_pane_title(app, draw, pane, title);
        if (choices.size() == 1) name_axes(app, draw, pane, title);
        draw_axes(draw, pane);
        const ImageStyle style = draw_pane(app, i, pane);
        if (choices.size() > 1) draw_small_scale(app, draw, pane, style, title);
        // The legend is that of the chosen stage and quantity, or of the first pane.
        const bool chosen =
            choices[i].quantity == against(app.view.against, app.view.quantity) || choices[i].instead;
        if (i == 0 || (chosen && choices[i].stage == app.view.stage)) {
            shown = style;
            shown_quantity = pane.quantity;
        }
    }
    app.shown_scale = shown.scale;
    draw_legend(app, draw, {area.x, box.y + box.height - legend - 0.6F * pad, area.width, legend}, kinds,
                shown_quantity, shown);
    if (!app.png.empty()) write_png_of(app, panes);
}

}  // namespace tilescope::viewer
