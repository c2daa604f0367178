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

/// `at` is in the grid.
std::optional<MapPlace> place_at(const App& app, const MapGrid& grid, ImVec2 at) {
    const std::optional<std::int64_t> head = grid.head_at(at.x, at.y);
    if (!head) return std::nullopt;
    const Box box = grid.cell(*head);
    const MapSize size = size_of_head(app.problem(), app.view.stage);
    const auto down = std::int64_t((at.y - box.y) / box.height * float(size.rows));
    const auto across = std::int64_t((at.x - box.x) / box.width * float(size.cols));
    if (down >= size.rows || across >= size.cols) return std::nullopt;
    const std::int64_t heads = stage_heads(app.problem(), app.view.stage);
    return MapPlace{*head / heads, *head % heads, down, across};
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

Box box_of_cursor(const App& app, const MapGrid& grid) {
    const MapPlace place = place_of_cursor(app);
    return grid.cell(place.batch * stage_heads(app.problem(), app.view.stage) + place.head);
}

/// The cursor's tile.
Box tile_of_cursor(const App& app, const MapGrid& grid) {
    const MapPlace place = place_of_cursor(app);
    const MapSize size = size_of_head(app.problem(), app.view.stage);
    const Box box = box_of_cursor(app, grid);
    const float width = box.width / float(size.cols);
    const float height = box.height / float(size.rows);
    return {box.x + float(place.across) * width, box.y + float(place.down) * height, width, height};
}

/// A rim around the cursor's head and tile.
void draw_marks(const App& app, ImDrawList& draw, const MapGrid& grid, ImVec2 origin) {
    const Box box = box_of_cursor(app, grid);
    const ImVec2 head = origin + ImVec2(box.x, box.y);
    if (grid.count() > 1)
        draw.AddRect(head - ImVec2(2, 2), head + ImVec2(box.width + 2, box.height + 2), colours::accent_dim,
                     0, 0, 1);
    const Box tile = tile_of_cursor(app, grid);
    const ImVec2 at = origin + ImVec2(tile.x, tile.y);
    const ImVec2 end = at + ImVec2(std::max(tile.width, 4.0F), std::max(tile.height, 4.0F));
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

/// Whether the recording has anything of the head; until it is judged, whether that was to be recorded.
bool is_captured(const App& app, std::int64_t batch, std::int64_t head) {
    const Stage stage = app.view.stage;
    if (app.document->map_of(app.view.against).picture(stage, batch, head) != nullptr) return true;
    if (app.document->report != nullptr) return false;
    const std::optional<Selection>& selection = app.document->recording->capture().selection;
    return !selection ||
           (selection->batch.contains(batch) && selection->selects_head(app.problem(), stage, head));
}

std::vector<bool> captured_heads(const App& app) {
    const std::int64_t heads = stage_heads(app.problem(), app.view.stage);
    std::vector<bool> captured;
    for (std::int64_t i = 0; i < app.problem().batch * heads; ++i)
        captured.push_back(is_captured(app, i / heads, i % heads));
    return captured;
}

bool shares_kv_heads(const App& app) {
    return stage_heads(app.problem(), app.view.stage) > app.problem().heads_kv;
}

/// What the heads of a group have in common; `brief` where there is little room.
std::string name_of_group(const App& app, std::int64_t group, bool brief) {
    const Problem& problem = app.problem();
    const std::int64_t in_batch = shares_kv_heads(app) ? problem.heads_kv : 1;
    std::string name;
    if (problem.batch > 1) name = fmt::format("{}{}", brief ? "b" : "batch ", group / in_batch);
    if (!shares_kv_heads(app)) return name;
    if (!name.empty()) name += brief ? " " : ", ";
    return name + fmt::format("kv{}{}", brief ? "" : " head ", group % in_batch);
}

/// Above each group, with a line over its heads.
void name_groups(App& app, ImDrawList& draw, const MapGrid& grid, ImVec2 origin) {
    if (grid.room.label == 0) return;
    const float em = ImGui::GetFontSize();
    const std::int64_t last = grid.heads.groups - 1;
    const bool brief =
        ImGui::CalcTextSize(name_of_group(app, last, false).c_str()).x > grid.group(last).width;
    for (std::int64_t i = 0; i <= last; ++i) {
        const Box box = grid.group(i);
        const ImVec2 at = origin + ImVec2(box.x, box.y);
        const std::string name = name_of_group(app, i, brief);
        const float end = ImGui::CalcTextSize(name.c_str()).x + 0.5F * em;
        text_at(app, draw, at, name, colours::dim, box.width + float(grid.room.between));
        if (end < box.width)
            draw.AddLine(at + ImVec2(end, 0.5F * em), at + ImVec2(box.width, 0.5F * em), colours::line);
    }
}

/// Below each head, and over those of which nothing was captured.
void name_heads(App& app, ImDrawList& draw, const MapGrid& grid, ImVec2 origin,
                const std::vector<bool>& captured) {
    const std::int64_t heads = stage_heads(app.problem(), app.view.stage);
    if (heads == 1) return;
    const float em = ImGui::GetFontSize();
    const bool of_kv = heads < app.problem().heads;
    for (std::int64_t i = 0; i < grid.count(); ++i) {
        const Box box = grid.cell(i);
        const ImVec2 corner = origin + ImVec2(box.x, box.y);
        if (!ImGui::IsRectVisible(corner, corner + ImVec2(box.width, box.height))) continue;
        app.readout.place(fmt::format("map head {}", i), {corner.x, corner.y, box.width, box.height});
        const ImVec2 at = corner + ImVec2(0, box.height + 1);
        const bool there = captured[std::size_t(i)];
        const std::string name = fmt::format("{}{}", of_kv ? "kv " : "", i % heads);
        const std::string absent = name + " not captured";
        const auto fits = [&](const std::string& line) {
            return ImGui::CalcTextSize(line.c_str()).x <= box.width;
        };
        if (box.width < em) continue;
        text_at(app, draw, at, !there && fits(absent) ? absent : name,
                there ? colours::dim : colours::absent);
        if (there) continue;
        draw.AddLine(corner, corner + ImVec2(box.width, box.height), colours::absent);
    }
}

/// As far as the grid goes, and no further.
void keep_inside(MapView& view, const MapGrid& grid) {
    view.left = std::clamp(view.left, 0.0F, std::max(0.0F, float(grid.width() - grid.room.width)));
    view.top = std::clamp(view.top, 0.0F, std::max(0.0F, float(grid.height() - grid.room.height)));
}

/// Larger or smaller heads; what is at the point of the window stays there.
MapGrid zoom_map(MapView& view, const MapGrid& whole, float steps, ImVec2 point) {
    constexpr double step = 0.85;
    constexpr double most = 32;
    const MapGrid before = whole.zoomed(view.zoom);
    const ImVec2 at = point + ImVec2(view.left, view.top);
    const double fits =
        std::min({1.0, double(whole.room.width) / whole.width(), double(whole.room.height) / whole.height()});
    view.zoom = std::clamp(view.zoom / std::pow(step, double(steps)), fits, most);
    const MapGrid after = whole.zoomed(view.zoom);
    const std::optional<std::int64_t> head = before.head_at(at.x, at.y);
    const Box from = head ? before.cell(*head) : Box{0, 0, float(before.width()), float(before.height())};
    const Box to = head ? after.cell(*head) : Box{0, 0, float(after.width()), float(after.height())};
    view.left = to.x + (at.x - from.x) / from.width * to.width - point.x;
    view.top = to.y + (at.y - from.y) / from.height * to.height - point.y;
    return after;
}

/// Where the cursor went to another tile, that is seen.
void follow_cursor(const App& app, MapView& view, const MapGrid& grid) {
    const MapPlace place = place_of_cursor(app);
    const std::array now{std::int64_t(app.view.stage), place.batch, place.head, place.down, place.across};
    if (std::exchange(view.followed, now) == now) return;
    const Box tile = tile_of_cursor(app, grid);
    const auto seen = [](float first, float size, float at, float room) {
        return std::max(std::min(first, at), at + std::min(size, room) - room);
    };
    view.left = seen(view.left, tile.width, tile.x, float(grid.room.width));
    view.top = seen(view.top, tile.height, tile.y, float(grid.room.height));
}

/// At the edges, where a part of the map is seen: which.
void draw_scroll(ImDrawList& draw, const MapView& view, const MapGrid& grid, ImVec2 at) {
    constexpr float thick = 3;
    const ImVec2 room{float(grid.room.width), float(grid.room.height)};
    const ImVec2 from{view.left / float(grid.width()) * room.x, view.top / float(grid.height()) * room.y};
    const ImVec2 size{room.x / float(grid.width()) * room.x, room.y / float(grid.height()) * room.y};
    if (size.y < room.y)
        draw.AddRectFilled(at + ImVec2(room.x - thick, from.y), at + ImVec2(room.x, from.y + size.y),
                           colours::accent_dim);
    if (size.x < room.x)
        draw.AddRectFilled(at + ImVec2(from.x, room.y - thick), at + ImVec2(from.x + size.x, room.y),
                           colours::accent_dim);
}

/// The grid as the wheel and the left button leave it.
MapGrid move_map(App& app, const MapGrid& whole, ImVec2 corner) {
    MapView& view = app.view.map;
    const ImGuiIO& io = ImGui::GetIO();
    MapGrid grid = whole.zoomed(view.zoom);
    if (ImGui::IsItemHovered() && io.MouseWheel != 0)
        grid = zoom_map(view, whole, io.MouseWheel, io.MousePos - corner);
    if (ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Left)) {
        view.left -= io.MouseDelta.x;
        view.top -= io.MouseDelta.y;
    }
    follow_cursor(app, view, grid);
    keep_inside(view, grid);
    return grid;
}

void take_click(App& app, const MapGrid& grid, ImVec2 origin) {
    const ImGuiIO& io = ImGui::GetIO();
    app.map_pointed.reset();
    if (!ImGui::IsItemHovered()) return;
    const std::optional<MapPlace> pointed = place_at(app, grid, io.MousePos - origin);
    if (!pointed) return;
    app.map_pointed = std::array{pointed->batch, pointed->head, pointed->down, pointed->across};
    const bool dragged = io.MouseDragMaxDistanceSqr[0] >= io.MouseDragThreshold * io.MouseDragThreshold;
    if (ImGui::IsMouseReleased(ImGuiMouseButton_Left) && !dragged) go_to_place(app, *pointed);
}

void draw_picture(App& app, const MapGrid& whole) {
    const ImVec2 room{float(whole.room.width), float(whole.room.height)};
    ImGui::BeginChild("map picture", room, false,
                      ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    app.readout.place("map picture", {corner.x, corner.y, room.x, room.y});
    ImGui::InvisibleButton("map", room);
    const MapGrid grid = move_map(app, whole, corner);
    const MapView& view = app.view.map;
    const MapWindow seen{int(view.left), int(view.top), whole.room.width, whole.room.height};
    const ImVec2 origin = corner - ImVec2(float(seen.left), float(seen.top));
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const std::vector<bool> captured = captured_heads(app);
    const TextureName texture =
        app.map_picture.texture(app.document->map_of(app.view.against), app.problem(), app.view.stage, grid,
                                seen, captured, app.document->generation, mark_pixels());
    if (texture != 0) add_image(draw, texture, corner, corner + room);
    app.map_is_behind = app.map_picture.is_behind();
    app.waits = app.waits || app.map_is_behind;
    draw_conflicts(app, draw, grid, origin);
    name_groups(app, draw, grid, origin);
    name_heads(app, draw, grid, origin, captured);
    draw_marks(app, draw, grid, origin);
    draw_scroll(draw, view, grid, corner);
    take_click(app, grid, origin);
    ImGui::EndChild();
}

/// The room below the title, without that of the finding.
MapRoom room_for_map(const App& app) {
    const float em = ImGui::GetFontSize();
    const ImVec2 left = ImGui::GetContentRegionAvail();
    const Problem& problem = app.problem();
    const bool named = stage_heads(problem, app.view.stage) > 1;
    const bool grouped = head_groups(problem, app.view.stage).groups > 1 || shares_kv_heads(app);
    return {.width = int(left.x),
            .height = int(left.y - 4.1F * em),
            .gap_across = named ? int(0.5F * em) : 0,
            .gap_down = named ? int(1.5F * em) : 0,
            .label = grouped ? int(1.4F * em) : 0,
            .between = grouped ? int(0.8F * em) : 0,
            .smallest = int(3.4F * em)};
}

}  // namespace

void draw_map(App& app, const Box& box) {
    const PanelScope panel(app, "map", box);
    map_contents(app);
}

void map_contents(App& app) {
    const Problem& problem = app.problem();
    const MapSize size = size_of_head(problem, app.view.stage);
    const bool end_to_end = app.view.against == Reference::end_to_end;
    title(app, fmt::format("Map of {}{}{}{}", stage_info(app.problem(), app.view.stage).name,
                           end_to_end ? " end to end" : "", size.rows > 1 ? ": q blocks down" : "",
                           size.cols > 1 ? ", KV tiles across" : ""));
    const MapRoom room = room_for_map(app);
    if (room.width < 16 || room.height < 16) return;
    draw_picture(app, arrange_heads(head_groups(problem, app.view.stage), size.rows, size.cols, room));
    const auto& pointed = app.map_pointed;
    draw_finding(app, pointed && app.pointer_leads
                          ? MapPlace{(*pointed)[0], (*pointed)[1], (*pointed)[2], (*pointed)[3]}
                          : place_of_cursor(app));
}

}  // namespace tilescope::viewer
