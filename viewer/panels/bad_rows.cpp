#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <utility>

#include "oracle/report/card.h"
#include "viewer/panels/panel.h"
#include "viewer/panels/words.h"

namespace tilescope::viewer {

namespace {

/// Columns of the table, and whether ranges, rows and tiles have them.
struct Column {
    BadColumn column;
    std::array<bool, listed_count> shown;
};

constexpr std::array table_columns = {
    Column{BadColumn::batch, {true, true, true}},     Column{BadColumn::head, {true, true, true}},
    Column{BadColumn::row, {true, true, true}},       Column{BadColumn::kv_tile, {true, false, true}},
    Column{BadColumn::q_block, {false, false, true}}, Column{BadColumn::elements, {true, true, true}},
    Column{BadColumn::worst, {true, false, true}},
};

Listed listed_of(const App& app) {
    return listed_of(app.problem(), app.bad.list);
}

bool has_keys(const App& app) {
    return row_axis_of(app.problem(), app.bad.list.stage) == ViewAxis::key;
}

bool is_shown(const Column& column, const App& app) {
    const BadList& list = app.bad.list;
    const StageInfo info = stage_info(app.problem(), list.stage);
    if (!column.shown[std::size_t(listed_of(app))]) return false;
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
            return fmt::format("{}{}", has_keys(app) ? "key" : "row",
                               listed_of(app) == Listed::ranges ? "s" : "");
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

/// What a heading leaves open; "" for nothing.
const char* told_of(BadColumn column, const App& app) {
    if (column == BadColumn::elements) return "elements that diverge";
    if (listed_of(app) != Listed::ranges)
        return column == BadColumn::worst ? "largest difference / budget" : "";
    if (column == BadColumn::kv_tile)
        return "first KV tile that diverges; >= where its tiles hold other bad rows, and may be right in "
               "these";
    return column == BadColumn::worst
               ? "largest difference / budget; <= where the tiles hold other bad rows, and it may be theirs"
               : "";
}

std::string cell_of(const BadPlace& place, BadColumn column) {
    switch (column) {
        case BadColumn::batch:
            return fmt::format("{}", place.batch);
        case BadColumn::head:
            return fmt::format("{}", place.head);
        case BadColumn::row:
            return place.last_row > place.row ? fmt::format("{}-{}", place.row, place.last_row)
                                              : fmt::format("{}", place.row);
        case BadColumn::kv_tile:
            return fmt::format("{}{}", place.exact ? "" : ">= ", place.kv_tile);
        case BadColumn::q_block:
            return fmt::format("{}", place.q_block);
        case BadColumn::elements:
            return fmt::format("{}", place.elements);
        default:
            return (place.exact ? "" : "<= ") + quotient_text(place.worst);
    }
}

/// Of the width that was set for the next item.
bool begin_drop_down(App& app, const std::string& name, const std::string& chosen) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    app.readout.place(name, {at.x, at.y, ImGui::CalcItemWidth(), ImGui::GetFrameHeight()});
    const bool is_open = ImGui::BeginCombo(("##" + name).c_str(), chosen.c_str());
    if (is_open) app.readout.add("choices of " + name);
    return is_open;
}

void draw_filters(App& app) {
    BadList& list = app.bad.list;
    const std::array<const char*, listed_count> names = {"ranges", has_keys(app) ? "keys" : "rows", "tiles"};
    for (int i = 0; i < listed_count; ++i) {
        const float width =
            ImGui::CalcTextSize(names[std::size_t(i)]).x + 2 * ImGui::GetStyle().FramePadding.x;
        if (i > 0 && ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
        if (choice(names[std::size_t(i)], list.listed == Listed(i))) list.listed = Listed(i);
        ImGui::SameLine(0, 3);
    }
    const float em = ImGui::GetFontSize();
    ImGui::SetNextItemWidth(4.2F * em);
    if (begin_drop_down(app, "bad stage", std::string(stage_info(app.problem(), list.stage).name))) {
        for (const StageInfo& info : stages_of(app.problem())) {
            if (ImGui::Selectable(std::string(info.name).c_str(), info.stage == list.stage))
                list.stage = info.stage;
        }
        ImGui::EndCombo();
    }
    ImGui::SameLine(0, 3);
    // The longest of them.
    if (ImGui::GetContentRegionAvail().x < ImGui::CalcTextSize("conflicting").x + 2 * em) ImGui::NewLine();
    ImGui::SetNextItemWidth(-1);
    if (begin_drop_down(app, "bad kind", std::string(to_string(list.filter)))) {
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
    BadSort& sort = app.bad.sort(app.problem());
    const auto now = std::ranges::find(shown, sort.column);
    const bool last = now == shown.end() || now + 1 == shown.end();
    sort.descending = sort.descending != last;
    const BadColumn next = last ? shown.front() : *(now + 1);
    const auto index = int(std::ranges::find(shown, next) - shown.begin());
    ImGui::TableSetColumnSortDirection(
        index, sort.descending ? ImGuiSortDirection_Descending : ImGuiSortDirection_Ascending, false);
}

void sort_as_asked(App& app) {
    sort_by_next(app);
    ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
    if (specs == nullptr || !specs->SpecsDirty || specs->SpecsCount == 0) return;
    BadSort& sort = app.bad.sort(app.problem());
    sort = {BadColumn(specs->Specs[0].ColumnUserID),
            specs->Specs[0].SortDirection == ImGuiSortDirection_Descending};
    sort_bad_places(app.bad.places, sort.column, sort.descending);
    specs->SpecsDirty = false;
}

bool is_at_cursor(const App& app, const BadPlace& place) {
    const Cursor& cursor = app.view.cursor;
    const Problem& problem = app.problem();
    const bool keys = row_axis_of(problem, app.bad.list.stage) == ViewAxis::key;
    const Stage stage = app.bad.list.stage;
    if (place.batch != cursor.batch || place.head != head_in(problem, stage, cursor.head)) return false;
    const std::int64_t row = keys ? cursor.key : cursor.row;
    if (listed_of(app) != Listed::tiles)
        return row >= place.row && row <= std::max(place.row, place.last_row);
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
                    text_of_cell(app, cell);
                } else if (ImGui::Selectable(cell.c_str(), is_at_cursor(app, place),
                                             ImGuiSelectableFlags_SpanAllColumns)) {
                    go_to_bad(app, list, place);
                }
            }
            app.readout.add("bad " + line);
            const ImVec2 low = ImGui::GetItemRectMin();
            app.readout.place(fmt::format("bad {}", i),
                              {low.x, low.y, ImGui::GetItemRectSize().x, ImGui::GetItemRectSize().y});
            ImGui::PopID();
        }
    }
}

std::string title_of(const App& app) {
    const BadList& list = app.bad.list;
    const Listed listed = listed_of(app);
    const std::string_view what = listed == Listed::tiles ? "tiles" : has_keys(app) ? "keys" : "rows";
    const std::string_view stage = stage_info(app.problem(), list.stage).name;
    if (app.document->report == nullptr) return fmt::format("Bad {} of {}", what, stage);
    if (!app.bad.complete) return fmt::format("Bad {} of {}: looking", what, stage);
    std::string line = fmt::format("Bad {} of {}: {}", what, stage, app.bad.rows.size());
    if (listed == Listed::ranges && !app.bad.places.empty())
        line += fmt::format(" in {} range{}", app.bad.places.size(), app.bad.places.size() == 1 ? "" : "s");
    return app.bad.by_tile ? fmt::format("{}, of {} tiles", line, to_string(list.filter)) : line;
}

/// States in which nothing could be found, with what is said of them.
std::string why_not_compared(const Report& report, Stage stage) {
    constexpr std::array nothing_found = {StageState::not_captured, StageState::not_compared,
                                          StageState::not_judged, StageState::not_declared};
    const StageState state = state_of(report, stage);
    if (state == StageState::not_captured)
        return fmt::format("{} was not recorded", stage_info(report.problem, stage).name);
    if (std::ranges::find(nothing_found, state) == nothing_found.end()) return "";
    for (const ChainLink& link : chain_of(report))
        if (link.stage == stage) return link.says;
    return "";
}

/// Why the table is empty; "" where it is not.
std::string why_empty(const App& app) {
    if (!app.bad.places.empty() || !app.bad.complete) return "";
    const Document& document = *app.document;
    const BadList& list = app.bad.list;
    if (document.report == nullptr) {
        if (!app.status.message.empty()) return "not judged yet";
        return app.status.error.empty() ? "cancelled: F5 judges again" : "not judged";
    }
    const std::string open = why_not_compared(*document.report, list.stage);
    if (!open.empty()) return open;
    const std::string_view stage = stage_info(app.problem(), list.stage).name;
    const std::string_view what = listed_of(app) == Listed::tiles ? "tile" : has_keys(app) ? "key" : "row";
    if (!document.map_of(list.against).bad_tiles(list.stage).empty())
        return list.filter != BadFilter::any
                   ? fmt::format("no {} of {} diverges in this way: key Y shows every kind", what, stage)
                   : fmt::format("no {} of {} diverges, but tiles do: key B shows them", what, stage);
    if (document.pair()) return fmt::format("no {} of {} differs", what, stage);
    if (list.against == Reference::end_to_end)
        return fmt::format("no {} of {} diverges end to end", what, stage);
    if (document.report->stage(list.stage).tally.inherited > 0)
        return fmt::format("no {} of {} diverges by itself, errors are inherited: key I shows end to end",
                           what, stage);
    return fmt::format("no {} of {} diverges", what, stage);
}

/// ImGui leaves room for the arrow in every heading; here only the one that has it does without that room. Returns what is shown.
std::string draw_heading(const std::string& heading, bool has_arrow) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float arrow = has_arrow ? ImGui::GetFontSize() : 0;
    const float room = ImGui::GetContentRegionAvail().x - arrow;
    ImGui::TableHeader(("##" + heading).c_str());
    const std::string text = ellipsized(heading, room);
    ImGui::GetWindowDrawList()->AddText(at, colours::text, text.c_str());
    return text;
}

/// That the column needs beside the others.
float letters_of(BadColumn column, const std::string& name, const App& app) {
    // A number of four digits with its exponent, or a range as long as the largest of the sequence.
    const std::size_t last =
        std::to_string(std::max(app.problem().seqlen_q, app.problem().seqlen_kv) - 1).size();
    const std::size_t cell = column == BadColumn::worst                                     ? 9
                             : column == BadColumn::row && listed_of(app) == Listed::ranges ? 2 * last + 1
                                                                                            : 0;
    return float(std::max(name.size(), cell)) + 0.5F;
}

}  // namespace

void draw_bad_rows(App& app, const Box& box) {
    const PanelScope panel(app, "bad rows", box);
    bad_rows_contents(app);
}

void bad_rows_contents(App& app) {
    const Listed listed = listed_of(app);
    title(app, title_of(app));
    draw_filters(app);
    const std::string empty = why_empty(app);
    if (!empty.empty()) {
        ImGui::PushTextWrapPos(0);
        text(app, empty);
        ImGui::PopTextWrapPos();
    }
    int count = 0;
    for (const Column& column : table_columns) count += is_shown(column, app);
    const ImGuiTableFlags flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_Sortable | ImGuiTableFlags_RowBg |
                                  ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH;
    const std::string id = fmt::format("listed {} {}{}", int(listed), count, has_keys(app) ? "keys" : "");
    ImGui::PushStyleVar(ImGuiStyleVar_CellPadding, {2, ImGui::GetStyle().CellPadding.y});
    const bool drawn = ImGui::BeginTable(id.c_str(), count, flags);
    ImGui::PopStyleVar();
    if (!drawn) return;
    ImGui::TableSetupScrollFreeze(0, 1);
    std::string headings;
    std::vector<BadColumn> shown;
    for (const Column& column : table_columns) {
        if (!is_shown(column, app)) continue;
        // Of ranges the worst comes first.
        const bool by_worst = listed == Listed::ranges;
        const bool is_default = column.column == (by_worst ? BadColumn::worst : BadColumn::batch);
        const ImGuiTableColumnFlags sorting =
            is_default ? ImGuiTableColumnFlags_DefaultSort |
                             (by_worst ? ImGuiTableColumnFlags_PreferSortDescending : 0)
                       : 0;
        const std::string name = name_of(column.column, app);
        ImGui::TableSetupColumn(name.c_str(), sorting, letters_of(column.column, name, app),
                                ImGuiID(column.column));
        shown.push_back(column.column);
        headings += name + " ";
    }
    app.readout.add("headings " + headings);
    const BadColumn sorted = app.bad.sort(app.problem()).column;
    ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
    for (int i = 0; i < count; ++i) {
        ImGui::TableSetColumnIndex(i);
        const std::string heading = ImGui::TableGetColumnName(i);
        const bool whole = draw_heading(heading, sorted == shown[std::size_t(i)]) == heading;
        const std::string meaning = told_of(shown[std::size_t(i)], app);
        const std::string words = whole ? meaning : meaning.empty() ? heading : heading + ": " + meaning;
        if (!words.empty() && ImGui::IsItemHovered()) tooltip(app, words);
        const ImVec2 at = ImGui::GetItemRectMin();
        const ImVec2 size = ImGui::GetItemRectSize();
        app.readout.place("heading " + heading, {at.x, at.y, size.x, size.y});
    }
    sort_as_asked(app);
    draw_places(app);
    ImGui::EndTable();
}

}  // namespace tilescope::viewer
