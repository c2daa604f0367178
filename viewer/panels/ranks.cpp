// The map of ranks and steps: a cell for each recording of a run.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "viewer/panels/pane_frame.h"
#include "viewer/panels/rank_words.h"
#include "viewer/panels/words.h"

namespace tilescope::viewer {

namespace {

constexpr ImU32 behind_words = IM_COL32(12, 14, 17, 190);

/// Where the cells stand, from the corner of the first one.
struct RankRoom {
    ImVec2 corner;    ///< of what is seen, in the window
    ImVec2 seen;      ///< its size
    float width = 1;  ///< of a cell, with the gap to the next
    float height = 1;
    float gap = 1;
    ImVec2 scrolled;

    ImVec2 at(const RankCell& cell) const {
        return corner - scrolled + ImVec2(float(cell.column) * width, float(cell.rank) * height);
    }
    ImVec2 size() const { return {width - gap, height - gap}; }
};

/// The cells that are seen, at least in part.
struct CellRange {
    std::int64_t first_rank, last_rank, first_column, last_column;
};

CellRange seen_in(const RankRoom& room, const RankGrid& grid) {
    const auto first = [](float scrolled, float size) { return std::int64_t(scrolled / size); };
    const auto last = [](float scrolled, float seen, float size, std::int64_t count) {
        return std::min(count, std::int64_t(std::ceil((scrolled + seen) / size)));
    };
    return {first(room.scrolled.y, room.height),
            last(room.scrolled.y, room.seen.y, room.height, grid.ranks()), first(room.scrolled.x, room.width),
            last(room.scrolled.x, room.seen.x, room.width, grid.columns())};
}

template <class Each>
void each_seen(const RankRoom& room, const RankGrid& grid, const Each& each) {
    const CellRange range = seen_in(room, grid);
    for (std::int64_t rank = range.first_rank; rank < range.last_rank; ++rank)
        for (std::int64_t column = range.first_column; column < range.last_column; ++column)
            each(RankCell{rank, column});
}

float width_of(const std::string& words) {
    return ImGui::CalcTextSize(words.c_str()).x;
}

std::string name_of_rank(std::int64_t rank, bool brief) {
    return fmt::format("{}{}", brief ? "" : "rank ", rank);
}

std::string name_of_column(const RankGrid& grid, std::int64_t column, bool brief) {
    if (column >= std::int64_t(grid.steps().size())) return brief ? "end" : "at the end";
    return fmt::format("{}{}", brief ? "" : "step ", grid.steps()[std::size_t(column)]);
}

/// Every so many are named, where not all have room.
std::int64_t between_names(float needed, float size) {
    std::int64_t step = 1;
    while (float(step) * size < needed) step *= 2;
    return step;
}

void name_ranks(App& app, ImDrawList& draw, const RankRoom& room, float labels) {
    const RankGrid& grid = app.ranks.run->grid;
    const float em = ImGui::GetFontSize();
    const bool brief = width_of(name_of_rank(grid.ranks() - 1, false)) > labels;
    const std::int64_t step = between_names(1.2F * em, room.height);
    const CellRange range = seen_in(room, grid);
    for (std::int64_t rank = range.first_rank; rank < range.last_rank; ++rank) {
        const float y = room.at({rank, 0}).y + (room.size().y - em) / 2;
        if (rank % step != 0 || y < room.corner.y - em / 2 || y + em > room.corner.y + room.seen.y + em / 2)
            continue;
        text_at(app, draw, {room.corner.x - labels, y}, name_of_rank(rank, brief),
                rank == app.ranks.cell.rank ? colours::accent : colours::dim);
    }
}

void name_columns(App& app, ImDrawList& draw, const RankRoom& room) {
    const RankGrid& grid = app.ranks.run->grid;
    const float em = ImGui::GetFontSize();
    const auto widest = [&](bool brief) {
        return width_of(name_of_column(grid, grid.columns() - 1, brief)) + 0.6F * em;
    };
    const bool brief = widest(false) > room.width;
    const std::int64_t step = between_names(widest(brief), room.width);
    const CellRange range = seen_in(room, grid);
    for (std::int64_t column = range.first_column; column < range.last_column; ++column) {
        const float x = room.at({0, column}).x;
        if (column % step != 0 || x < room.corner.x - 1) continue;
        text_at(app, draw, {x, room.corner.y - 1.5F * em}, name_of_column(grid, column, brief),
                column == app.ranks.cell.column ? colours::accent : colours::dim);
    }
}

PaintedCell painted(const App& app, const RankRoom& room, const RankCell& cell) {
    const ImVec2 at = room.at(cell) - room.corner;
    const CellLook look = look_of(app, cell);
    return {int(std::round(at.x)),
            int(std::round(at.y)),
            int(room.size().x),
            int(room.size().y),
            look.kind,
            look.value};
}

/// Words on a dark ground, where there is room for them.
void draw_words(App& app, ImDrawList& draw, const RankRoom& room, const RankCell& cell) {
    const float em = ImGui::GetFontSize();
    const ImVec2 inset{0.4F * em, 0.35F * em};
    const ImVec2 corner = room.at(cell);
    float y = corner.y + inset.y;
    const float width = room.size().x - 2 * inset.x;
    for (const CellLine& line : lines_of(app, cell)) {
        const std::string& words = width_of(line.words) <= width ? line.words : line.brief;
        if (words.empty() || width_of(words) > width || y + em + inset.y > corner.y + room.size().y) continue;
        draw.AddRectFilled({corner.x + inset.x - 3, y - 1},
                           {corner.x + inset.x + width_of(words) + 3, y + em + 2}, behind_words, 2);
        text_at(app, draw, {corner.x + inset.x, y}, words, line.colour);
        y += 1.35F * em;
    }
}

/// In the corner of the cell that is wrong first, whatever its size.
void mark_first_wrong(ImDrawList& draw, ImVec2 at, ImVec2 size) {
    const float side = std::min({0.7F * size.x, 0.7F * size.y, ImGui::GetFontSize()});
    const ImVec2 corner = at + ImVec2(size.x, 0);
    draw.AddTriangleFilled(corner - ImVec2(side, 0), corner, corner + ImVec2(0, side), IM_COL32_WHITE);
}

void draw_cells(App& app, ImDrawList& draw, const RankRoom& room) {
    const RankGrid& grid = app.ranks.run->grid;
    std::vector<PaintedCell> cells;
    each_seen(room, grid, [&](const RankCell& cell) {
        if (has_look(app, cell)) cells.push_back(painted(app, room, cell));
    });
    const TextureName texture =
        app.rank_picture.texture(int(room.seen.x), int(room.seen.y), cells, MapPicture::style(mark_pixels()));
    if (texture != 0)
        add_image(draw, texture, room.corner,
                  room.corner + ImVec2(std::floor(room.seen.x), std::floor(room.seen.y)));
    const RankReport* report = app.ranks.run->report.get();
    each_seen(room, grid, [&](const RankCell& cell) {
        const ImVec2 at = room.at(cell);
        app.readout.place("rank " + name_of_cell(*app.ranks.run, cell),
                          {at.x, at.y, room.size().x, room.size().y});
        if (!has_look(app, cell)) draw.AddRect(at, at + room.size(), colours::line);
        draw_words(app, draw, room, cell);
        const auto part = part_at(app, cell);
        if (part && report != nullptr && !report->faults.empty() && report->faults.front().part == *part)
            mark_first_wrong(draw, at, room.size());
    });
    const ImVec2 at = room.at(app.ranks.cell);
    draw_rim(draw, at, at + room.size(), room.corner - ImVec2(2, 2), room.corner + room.seen + ImVec2(2, 2));
}

void take_pointer(App& app, const RankRoom& room) {
    app.ranks.pointed.reset();
    if (!ImGui::IsItemHovered()) return;
    const ImVec2 at = ImGui::GetIO().MousePos - room.corner + room.scrolled;
    const RankCell cell{std::int64_t(at.y / room.height), std::int64_t(at.x / room.width)};
    const RankGrid& grid = app.ranks.run->grid;
    if (at.x < 0 || at.y < 0 || cell.rank >= grid.ranks() || cell.column >= grid.columns()) return;
    app.ranks.pointed = cell;
    if (app.pointer_leads) tooltip(app, title_of(*app.ranks.run, cell) + ": " + state_line(app, cell).words);
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) choose_cell(app, cell);
    if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) enter_recording(app);
}

/// Where another cell was chosen, that is seen.
void follow_cell(App& app, const RankRoom& room) {
    if (std::exchange(app.ranks.followed, app.ranks.cell) == app.ranks.cell) return;
    const auto seen = [](float scrolled, float at, float size, float room_for) {
        return std::clamp(scrolled, std::max(0.0F, at + size - room_for), std::max(0.0F, at));
    };
    const RankCell& cell = app.ranks.cell;
    ImGui::SetScrollX(seen(room.scrolled.x, float(cell.column) * room.width, room.width, room.seen.x));
    ImGui::SetScrollY(seen(room.scrolled.y, float(cell.rank) * room.height, room.height, room.seen.y));
}

/// As large as all of them have room, between the smallest that can be pointed at and the largest that is pleasant.
float cell_size(float room, std::int64_t count, float least, float most) {
    return std::floor(std::clamp(room / float(std::max<std::int64_t>(count, 1)), least, most));
}

void draw_grid(App& app, float height) {
    const RankGrid& grid = app.ranks.run->grid;
    const float em = ImGui::GetFontSize();
    const float labels = std::min(width_of(name_of_rank(grid.ranks() - 1, false)) + 0.8F * em, 6 * em);
    const ImVec2 corner = ImGui::GetCursorScreenPos() + ImVec2(labels, 1.7F * em);
    const ImVec2 seen{ImGui::GetContentRegionAvail().x - labels, height - 1.7F * em};
    RankRoom room{.corner = corner, .seen = seen, .scrolled = {}};
    room.width = cell_size(seen.x, grid.columns(), 0.9F * em, 24 * em);
    room.height = cell_size(seen.y, grid.ranks(), 0.9F * em, 14 * em);
    room.gap = std::min(room.width, room.height) > 2 * em ? 4 : 1;
    ImGui::SetCursorScreenPos(corner);
    ImGui::BeginChild("rank map", seen, false, ImGuiWindowFlags_HorizontalScrollbar);
    room.scrolled = {ImGui::GetScrollX(), ImGui::GetScrollY()};
    app.readout.place("rank map", {corner.x, corner.y, seen.x, seen.y});
    ImGui::InvisibleButton("cells", {float(grid.columns()) * room.width, float(grid.ranks()) * room.height});
    take_pointer(app, room);
    follow_cell(app, room);
    draw_cells(app, *ImGui::GetWindowDrawList(), room);
    ImGui::EndChild();
    name_ranks(app, *ImGui::GetWindowDrawList(), room, labels);
    name_columns(app, *ImGui::GetWindowDrawList(), room);
}

/// What the colours and patterns are, as far as they occur.
void draw_rank_legend(App& app) {
    const float em = ImGui::GetFontSize();
    const auto swatch = int(std::round(1.15F * em));
    const ImageStyle style = MapPicture::style(mark_pixels());
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
    const ImVec2 begin = ImGui::GetCursorScreenPos();
    ImVec2 at = begin;
    for (const LookName& look : look_names()) {
        const float needed = float(swatch) + 0.4F * em + width_of(std::string(look.name));
        if (at.x > begin.x && at.x + needed > right) at = {begin.x, at.y + 1.6F * em};
        if (look.look.kind == Kind::finite)
            draw.AddRectFilled(at, at + ImVec2(float(swatch), float(swatch)),
                               packed(colour_of(look.look.value, style.scale, style.colours)));
        else
            draw_swatch(draw, at, look.look.kind, swatch, style.mark_pixels);
        if (look.is_first) mark_first_wrong(draw, at, {float(swatch), float(swatch)});
        text_at(app, draw, at + ImVec2(float(swatch) + 0.4F * em, 0.1F * em), std::string(look.name),
                colours::dim);
        const Box box{at.x, at.y, needed, float(swatch)};
        app.readout.place("word " + std::string(look.name), box);
        if (ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect(at, at + ImVec2(needed, float(swatch))))
            tooltip(app, std::string(look.says));
        at.x += needed + 1.4F * em;
    }
}

}  // namespace

void draw_ranks(App& app, const Box& box) {
    const PanelScope panel(app, "ranks", box);
    const float em = ImGui::GetFontSize();
    title(app, "Map of the run: ranks down, steps across");
    if (app.ranks.run->grid.columns() == 0)
        return text(app, "no step and no output was recorded", colours::dim);
    const float legend = 3.4F * em;
    const float top = ImGui::GetCursorPosY();
    const float height = ImGui::GetContentRegionAvail().y - legend;
    if (height < 4 * em) return;
    draw_grid(app, height);
    ImGui::SetCursorPosY(top + height + 0.5F * em);
    draw_rank_legend(app);
}

}  // namespace tilescope::viewer
