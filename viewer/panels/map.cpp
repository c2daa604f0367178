#include <algorithm>
#include <cmath>
#include <limits>

#include "viewer/panels/pane_frame.h"

namespace tilescope::viewer {

namespace {

/// A tile of the map under the pointer, or at the cursor.
struct MapPlace {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t down = 0;    ///< q block
    std::int64_t across = 0;  ///< KV tile, or 0
};

struct MapSize {
    std::int64_t rows = 1;
    std::int64_t cols = 1;
};

MapSize size_of_head(const Problem& problem, Stage stage) {
    return {stage_info(problem, stage).per_q_block ? problem.q_blocks() : 1,
            stage_info(problem, stage).per_kv_tile ? problem.kv_tiles() : 1};
}

MapPlace place_of_cursor(const App& app) {
    const Problem& problem = app.problem();
    const Cursor& cursor = app.view.cursor;
    const bool tiles = stage_info(app.problem(), app.view.stage).per_kv_tile;
    const Stage stage = app.view.stage;
    return {cursor.batch, head_in(problem, stage, cursor.head),
            stage_info(problem, stage).per_q_block ? cursor.row / problem.block_m : 0,
            tiles ? cursor.key / problem.block_n : 0};
}

std::optional<MapPlace> place_under_pointer(const App& app, const MapGrid& grid, ImVec2 origin) {
    const ImVec2 at = ImGui::GetIO().MousePos - origin;
    const MapSize size = size_of_head(app.problem(), app.view.stage);
    const int column = int(at.x) / grid.cell_width;
    if (at.x < 0 || at.y < 0 || column >= grid.columns) return std::nullopt;
    const std::int64_t index = std::int64_t(int(at.y) / grid.cell_height) * grid.columns + column;
    if (index >= grid.heads) return std::nullopt;
    const Box box = grid.cell(index);
    const auto down = std::int64_t((at.y - box.y) / box.height * float(size.rows));
    const auto across = std::int64_t((at.x - box.x) / box.width * float(size.cols));
    if (down >= size.rows || across >= size.cols) return std::nullopt;
    const std::int64_t heads = stage_heads(app.problem(), app.view.stage);
    return MapPlace{index / heads, index % heads, down, across};
}

void go_to_place(App& app, const MapPlace& place) {
    const Problem& problem = app.problem();
    Cursor cursor = app.view.cursor;
    cursor.batch = place.batch;
    cursor.head = query_head_in(problem, app.view.stage, place.head, cursor.head);
    if (stage_info(app.problem(), app.view.stage).per_q_block && cursor.row / problem.block_m != place.down)
        cursor.row = place.down * problem.block_m;
    if (stage_info(app.problem(), app.view.stage).per_kv_tile && cursor.key / problem.block_n != place.across)
        cursor.key = place.across * problem.block_n;
    go_to(app, app.view.stage, cursor, true);
}

void draw_finding(App& app, const MapPlace& place) {
    const TileId tile{place.batch, place.head, place.down, place.across};
    const TileFinding finding = app.document->map_of(app.view.against).at(app.view.stage, tile);
    std::string where = fmt::format("batch {} head {} q block {}", place.batch, place.head, place.down);
    if (stage_info(app.problem(), app.view.stage).per_kv_tile)
        where += fmt::format(" KV tile {}", place.across);
    text(app, where);
    switch (finding.state) {
        case TileFinding::State::not_captured:
            return text(app, "not captured", colours::dim);
        case TileFinding::State::not_judged:
            return text(app, why_not_judged(app, app.view.stage, tile), colours::dim);
        case TileFinding::State::missing:
            return text(app, "should have been written, and was not", colours::bad);
        default:
            break;
    }
    if (finding.kinds == flag_of(Kind::indifferent))
        return text(app, "nothing can be expected", colours::dim);
    const bool finite = finding.worst < std::numeric_limits<float>::max();
    const std::string worst = finite ? short_number(finding.worst) + " x budget" : "beyond any budget";
    std::string what = fmt::format("worst {}, {} outside", worst, finding.outside);
    if (finding.nan > 0) what += fmt::format(", {} nan", finding.nan);
    if (finding.infinite > 0) what += fmt::format(", {} inf", finding.infinite);
    if (finding.unwritten > 0) what += fmt::format(", {} unwritten", finding.unwritten);
    if (finding.inherited > 0) what += fmt::format(", {} inherited", finding.inherited);
    if (finding.conflicting > 0) what += fmt::format(", {} conflicting", finding.conflicting);
    ImGui::PushTextWrapPos(0);
    text(app, what, finding.bad() ? colours::bad : finding.inherited > 0 ? colours::inherited : colours::dim);
    ImGui::PopTextWrapPos();
}

/// A rim around the cursor's head and tile.
void draw_marks(const App& app, ImDrawList& draw, const MapGrid& grid, ImVec2 origin) {
    const MapPlace place = place_of_cursor(app);
    const MapSize size = size_of_head(app.problem(), app.view.stage);
    const Box box = grid.cell(place.batch * stage_heads(app.problem(), app.view.stage) + place.head);
    const ImVec2 head = origin + ImVec2(box.x, box.y);
    if (grid.heads > 1)
        draw.AddRect(head - ImVec2(2, 2), head + ImVec2(box.width + 2, box.height + 2), colours::accent_dim,
                     0, 0, 1);
    const ImVec2 one{box.width / float(size.cols), box.height / float(size.rows)};
    const ImVec2 at = head + ImVec2(float(place.across) * one.x, float(place.down) * one.y);
    const ImVec2 end = at + ImVec2(std::max(one.x, 4.0F), std::max(one.y, 4.0F));
    draw_rim(draw, at, end, head, head + ImVec2(box.width, box.height));
}

/// Crosses on tiles with conflicting writes, which have no colour of their own.
void draw_conflicts(App& app, ImDrawList& draw, const MapGrid& grid, ImVec2 origin) {
    const MapSize size = size_of_head(app.problem(), app.view.stage);
    const std::int64_t heads = stage_heads(app.problem(), app.view.stage);
    const float em = ImGui::GetFontSize();
    for (const TileId& tile : app.map_picture.conflicts()) {
        const Box box = grid.cell(tile.batch * heads + tile.head);
        const float width = box.width / float(size.cols);
        const float height = box.height / float(size.rows);
        const float side = std::clamp(std::min(width, height) - 4, 5.0F, em);
        draw_cross(draw, {origin.x + box.x + (float(tile.kv_tile % size.cols) + 0.5F) * width - side / 2,
                          origin.y + box.y + (float(tile.q_block % size.rows) + 0.5F) * height - side / 2,
                          side, side});
    }
}

void draw_picture(App& app, const MapGrid& grid, int width, int height) {
    const float em = ImGui::GetFontSize();
    ImGui::BeginChild("map picture", {float(width) + ImGui::GetStyle().ScrollbarSize, float(height)}, false);
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const int scroll = int(ImGui::GetScrollY());
    const ImVec2 corner = origin + ImVec2(0, float(scroll));
    app.readout.place("map picture", {corner.x, corner.y, float(width), float(height)});
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    void* texture =
        app.map_picture.texture(app.document->map_of(app.view.against), app.problem(), app.view.stage, grid,
                                scroll, width, height, app.document->generation, mark_pixels());
    if (texture != nullptr) draw.AddImage(texture, corner, corner + ImVec2(float(width), float(height)));
    draw_conflicts(app, draw, grid, origin);
    draw_marks(app, draw, grid, origin);
    if (grid.heads > 1 && grid.gap > int(em)) {
        const std::int64_t heads = stage_heads(app.problem(), app.view.stage);
        for (std::int64_t i = 0; i < grid.heads; ++i) {
            const Box box = grid.cell(i);
            const std::string name =
                app.problem().batch > 1 ? fmt::format("{}.{}", i / heads, i % heads) : fmt::format("{}", i);
            draw.AddText(origin + ImVec2(box.x, box.y + box.height + 1), colours::dim, name.c_str());
        }
    }
    ImGui::InvisibleButton("map", {float(width), float(grid.rows() * grid.cell_height)});
    std::optional<MapPlace> pointed;
    if (ImGui::IsItemHovered()) pointed = place_under_pointer(app, grid, origin);
    if (pointed && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) go_to_place(app, *pointed);
    app.map_pointed =
        pointed ? std::optional(std::array{pointed->batch, pointed->head, pointed->down, pointed->across})
                : std::nullopt;
    ImGui::EndChild();
}

}  // namespace

void draw_map(App& app, const Box& box) {
    const PanelScope panel(app, "map", box);
    map_contents(app);
}

void map_contents(App& app) {
    const float em = ImGui::GetFontSize();
    const Problem& problem = app.problem();
    const MapSize size = size_of_head(problem, app.view.stage);
    const bool end_to_end = app.view.against == Reference::end_to_end;
    title(app, fmt::format("Map of {}{}{}{}", stage_info(app.problem(), app.view.stage).name,
                           end_to_end ? " end to end" : "", size.rows > 1 ? ": q blocks down" : "",
                           size.cols > 1 ? ", KV tiles across" : ""));
    const int width = int(ImGui::GetContentRegionAvail().x - ImGui::GetStyle().ScrollbarSize);
    const int height = int(ImGui::GetContentRegionAvail().y - 4.1F * em);
    if (width < 16 || height < 16) return;
    const std::int64_t heads = problem.batch * stage_heads(problem, app.view.stage);
    const int gap = heads == 1 ? 0 : heads <= 64 ? int(1.5F * em) : int(0.5F * em);
    draw_picture(app, arrange_heads(heads, size.rows, size.cols, width, height, gap, int(3.4F * em)), width,
                 height);
    const auto& pointed = app.map_pointed;
    draw_finding(app, pointed && app.pointer_leads
                          ? MapPlace{(*pointed)[0], (*pointed)[1], (*pointed)[2], (*pointed)[3]}
                          : place_of_cursor(app));
}

}  // namespace tilescope::viewer
