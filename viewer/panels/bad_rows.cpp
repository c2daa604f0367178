#include <array>

#include "viewer/panels/panel.h"

namespace tilescope::viewer {

namespace {

struct Column {
    BadColumn column;
    const char* name;
    bool of_rows;
    bool of_tiles;
};

constexpr std::array columns = {
    Column{BadColumn::batch, "batch", true, true},      Column{BadColumn::head, "head", true, true},
    Column{BadColumn::row, "row", true, true},          Column{BadColumn::kv_tile, "tile", false, true},
    Column{BadColumn::elements, "outside", true, true}, Column{BadColumn::worst, "worst", false, true},
};

bool is_shown(const Column& column, bool tiles) {
    return tiles ? column.of_tiles : column.of_rows;
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
        case BadColumn::elements:
            return fmt::format("{}", place.elements);
        default:
            return fmt::format("{:.3g}", place.tile.worst);
    }
}

void draw_filters(App& app) {
    BadList& list = app.bad.list;
    if (choice("rows", !list.tiles)) list.tiles = false;
    ImGui::SameLine(0, 3);
    if (choice("tiles", list.tiles)) list.tiles = true;
    ImGui::SameLine();
    const float em = ImGui::GetFontSize();
    ImGui::SetNextItemWidth(4.2F * em);
    if (ImGui::BeginCombo("##stage", std::string(stage_info(list.stage).name).c_str())) {
        for (const StageInfo& info : stages_of(app.problem().direction)) {
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

void sort_as_asked(App& app) {
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
    const bool keys = row_axis_of(app.bad.list.stage) == ViewAxis::key;
    const Stage stage = app.bad.list.stage;
    if (place.batch != cursor.batch || place.head != head_in(problem, stage, cursor.head)) return false;
    const std::int64_t row = keys ? cursor.key : cursor.row;
    if (!app.bad.list.tiles) return place.row == row;
    const bool per_tile = stage_info(stage).per_kv_tile;
    const bool per_block = stage_info(stage).per_q_block;
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
            for (const Column& column : columns) {
                if (!is_shown(column, list.tiles)) continue;
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

}  // namespace

void draw_bad_rows(App& app, const Box& box) {
    const PanelScope panel(app, "bad rows", box);
    const bool judged = app.document->report != nullptr;
    const BadList& list = app.bad.list;
    title(app, judged ? fmt::format("Bad {} of {}: {}", list.tiles ? "tiles" : "rows",
                                    stage_info(list.stage).name, app.bad.places.size())
                      : "Bad rows: not judged yet");
    draw_filters(app);
    int count = 0;
    for (const Column& column : columns) count += is_shown(column, list.tiles);
    const ImGuiTableFlags flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_Sortable | ImGuiTableFlags_RowBg |
                                  ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH;
    if (!ImGui::BeginTable(list.tiles ? "tiles" : "rows", count, flags)) return;
    ImGui::TableSetupScrollFreeze(0, 1);
    for (const Column& column : columns) {
        if (!is_shown(column, list.tiles)) continue;
        const bool is_default = column.column == BadColumn::row;
        ImGui::TableSetupColumn(column.name, is_default ? ImGuiTableColumnFlags_DefaultSort : 0, 0,
                                ImGuiID(column.column));
    }
    ImGui::TableHeadersRow();
    sort_as_asked(app);
    draw_places(app);
    ImGui::EndTable();
}

}  // namespace tilescope::viewer
