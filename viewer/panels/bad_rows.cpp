#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <utility>

#include "viewer/panels/panel.h"

namespace tilescope::viewer {

namespace {

struct Column {
    BadColumn column;
    bool of_rows;
    bool of_tiles;
};

constexpr std::array table_columns = {
    Column{BadColumn::batch, true, true},    Column{BadColumn::head, true, true},
    Column{BadColumn::row, true, true},      Column{BadColumn::kv_tile, false, true},
    Column{BadColumn::q_block, false, true}, Column{BadColumn::elements, true, true},
    Column{BadColumn::worst, false, true},
};

bool has_keys(const App& app) {
    return row_axis_of(app.problem(), app.bad.list.stage) == ViewAxis::key;
}

bool is_shown(const Column& column, const App& app) {
    const BadList& list = app.bad.list;
    const StageInfo info = stage_info(app.problem(), list.stage);
    if (!(list.tiles ? column.of_tiles : column.of_rows)) return false;
    if (column.column == BadColumn::kv_tile) return info.per_kv_tile;
    // Of other stages the row says it.
    if (column.column == BadColumn::q_block) return has_keys(app) && info.per_q_block;
    return true;
}

std::string name_of(BadColumn column, const App& app) {
    const BadList& list = app.bad.list;
    switch (column) {
        case BadColumn::batch:
            return "batch";
        case BadColumn::head:
            return stage_heads(app.problem(), list.stage) < app.problem().heads ? "kv head" : "head";
        case BadColumn::row:
            return has_keys(app) ? "key" : "row";
        case BadColumn::kv_tile:
            return "tile";
        case BadColumn::q_block:
            return "block";
        case BadColumn::elements:
            return "outside";
        default:
            return "worst";
    }
}

std::string cell_of(const BadPlace& place, BadColumn column) {
    switch (column) {
        case BadColumn::batch:
            return fmt::format("{}", place.batch);
        case BadColumn::head:
            return fmt::format("{}", place.head);
        case BadColumn::row:
            return fmt::format("{}", place.row);
        case BadColumn::kv_tile:
            return fmt::format("{}", place.kv_tile);
        case BadColumn::q_block:
            return fmt::format("{}", place.q_block);
        case BadColumn::elements:
            return fmt::format("{}", place.elements);
        default:
            return quotient_text(place.tile.worst);
    }
}

void draw_filters(App& app) {
    BadList& list = app.bad.list;
    if (choice(has_keys(app) ? "keys" : "rows", !list.tiles)) list.tiles = false;
    ImGui::SameLine(0, 3);
    if (choice("tiles", list.tiles)) list.tiles = true;
    ImGui::SameLine();
    const float em = ImGui::GetFontSize();
    ImGui::SetNextItemWidth(4.2F * em);
    if (ImGui::BeginCombo("##stage", std::string(stage_info(app.problem(), list.stage).name).c_str())) {
        for (const StageInfo& info : stages_of(app.problem())) {
            if (ImGui::Selectable(std::string(info.name).c_str(), info.stage == list.stage))
                list.stage = info.stage;
        }
        ImGui::EndCombo();
    }
    ImGui::SameLine(0, 3);
    ImGui::SetNextItemWidth(-1);
    if (ImGui::BeginCombo("##kind", std::string(to_string(list.filter)).c_str())) {
        for (int i = 0; i < bad_filter_count; ++i) {
            if (ImGui::Selectable(std::string(to_string(BadFilter(i))).c_str(), list.filter == BadFilter(i)))
                list.filter = BadFilter(i);
        }
        ImGui::EndCombo();
    }
}

/// Sorts by the column after the one that the table is sorted by; after the last the other way round.
void sort_by_next(App& app) {
    if (!std::exchange(app.bad.sort_next, false)) return;
    std::vector<BadColumn> shown;
    for (const Column& column : table_columns) {
        if (is_shown(column, app)) shown.push_back(column.column);
    }
    const auto now = std::ranges::find(shown, app.bad.column);
    const bool last = now == shown.end() || now + 1 == shown.end();
    app.bad.descending = app.bad.descending != last;
    const BadColumn next = last ? shown.front() : *(now + 1);
    const auto index = int(std::ranges::find(shown, next) - shown.begin());
    ImGui::TableSetColumnSortDirection(
        index, app.bad.descending ? ImGuiSortDirection_Descending : ImGuiSortDirection_Ascending, false);
}

void sort_as_asked(App& app) {
    sort_by_next(app);
    ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
    if (specs == nullptr || !specs->SpecsDirty || specs->SpecsCount == 0) return;
    app.bad.column = BadColumn(specs->Specs[0].ColumnUserID);
    app.bad.descending = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
    sort_bad_places(app.bad.places, app.bad.column, app.bad.descending);
    specs->SpecsDirty = false;
}

bool is_at_cursor(const App& app, const BadPlace& place) {
    const Cursor& cursor = app.view.cursor;
    const Problem& problem = app.problem();
    const bool keys = row_axis_of(problem, app.bad.list.stage) == ViewAxis::key;
    const Stage stage = app.bad.list.stage;
    if (place.batch != cursor.batch || place.head != head_in(problem, stage, cursor.head)) return false;
    const std::int64_t row = keys ? cursor.key : cursor.row;
    if (!app.bad.list.tiles) return place.row == row;
    const bool per_tile = stage_info(problem, stage).per_kv_tile;
    const bool per_block = stage_info(problem, stage).per_q_block;
    return (!per_block || place.q_block == cursor.row / problem.block_m) &&
           (!per_tile || place.kv_tile == cursor.key / problem.block_n);
}

void draw_places(App& app) {
    const BadList list = app.bad.list;
    ImGuiListClipper clipper;
    clipper.Begin(int(app.bad.places.size()));
    while (clipper.Step()) {
        for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
            const BadPlace place = app.bad.places[std::size_t(i)];
            ImGui::TableNextRow();
            ImGui::PushID(i);
            std::string line;
            for (const Column& column : table_columns) {
                if (!is_shown(column, app)) continue;
                ImGui::TableNextColumn();
                const std::string cell = cell_of(place, column.column);
                line += cell + " ";
                if (column.column != BadColumn::batch) {
                    ImGui::TextUnformatted(cell.c_str());
                } else if (ImGui::Selectable(cell.c_str(), is_at_cursor(app, place),
                                             ImGuiSelectableFlags_SpanAllColumns)) {
                    go_to_bad(app, list, place);
                }
            }
            app.readout.add("bad " + line);
            ImGui::PopID();
        }
    }
}

std::string title_of(const App& app) {
    const BadList& list = app.bad.list;
    if (app.document->report == nullptr) return "Bad rows: not judged yet";
    const std::string_view what = list.tiles ? "tiles" : has_keys(app) ? "keys" : "rows";
    if (!app.bad.complete)
        return fmt::format("Bad {} of {}: looking", what, stage_info(app.problem(), list.stage).name);
    const std::string line = fmt::format("Bad {} of {}: {}", what, stage_info(app.problem(), list.stage).name,
                                         app.bad.places.size());
    return app.bad.by_tile ? fmt::format("{}, of {} tiles", line, to_string(list.filter)) : line;
}

}  // namespace

void draw_bad_rows(App& app, const Box& box) {
    const PanelScope panel(app, "bad rows", box);
    bad_rows_contents(app);
}

void bad_rows_contents(App& app) {
    const BadList& list = app.bad.list;
    title(app, title_of(app));
    draw_filters(app);
    int count = 0;
    for (const Column& column : table_columns) count += is_shown(column, app);
    const ImGuiTableFlags flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_Sortable | ImGuiTableFlags_RowBg |
                                  ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH;
    const std::string id =
        fmt::format("{}{}{}", list.tiles ? "tiles" : "rows", count, has_keys(app) ? "keys" : "");
    if (!ImGui::BeginTable(id.c_str(), count, flags)) return;
    ImGui::TableSetupScrollFreeze(0, 1);
    std::string headings;
    for (const Column& column : table_columns) {
        if (!is_shown(column, app)) continue;
        const bool is_default = column.column == BadColumn::batch;
        ImGui::TableSetupColumn(name_of(column.column, app).c_str(),
                                is_default ? ImGuiTableColumnFlags_DefaultSort : 0, 0,
                                ImGuiID(column.column));
        headings += name_of(column.column, app) + " ";
    }
    app.readout.add("headings " + headings);
    ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
    for (int i = 0; i < count; ++i) {
        ImGui::TableSetColumnIndex(i);
        const std::string heading = ImGui::TableGetColumnName(i);
        ImGui::TableHeader(heading.c_str());
        const ImVec2 at = ImGui::GetItemRectMin();
        const ImVec2 size = ImGui::GetItemRectSize();
        app.readout.place("heading " + heading, {at.x, at.y, size.x, size.y});
    }
    sort_as_asked(app);
    draw_places(app);
    ImGui::EndTable();
}

}  // namespace tilescope::viewer
