// What went into one output element, KV tile by KV tile.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "viewer/panels/history_cells.h"
#include "viewer/panels/words.h"

namespace tilescope::viewer {

namespace {

using Moment = HistoryMoment;

/// Stages with a row of their own: those of the tiles. Operands that were not recorded need none.
std::vector<Stage> rows_of(const App& app, bool of_key) {
    std::vector<Stage> rows = history_stages(app.problem(), of_key, Moment::Kind::tile);
    std::erase_if(rows, [&](Stage stage) {
        const bool operand =
            stage == Stage::q || stage == Stage::k || stage == Stage::v || stage == Stage::dout;
        return operand && !app.has(stage);
    });
    return rows;
}

/// Where rows and columns of cells are.
struct Grid {
    const PixelHistory& history;
    std::vector<Stage> rows;
    std::vector<std::size_t> columns;  ///< moments that are shown
    std::size_t tiles = 0;             ///< of all moments
    ImVec2 at;
    float label = 0;  ///< width of the rows' names
    float column = 0;
    float heading = 0;  ///< height
    float row = 0;
    bool stacked = false;
    bool whole = false;  ///< every tile is shown

    Box cell(std::size_t index, std::size_t at_row) const {
        constexpr float gap = 2;
        return {at.x + label + float(index) * column, at.y + heading + float(at_row) * row, column - 4 * gap,
                row - gap};
    }
    float height() const { return heading + float(rows.size()) * row; }
};

float row_height(bool stacked) {
    return (stacked ? 2.4F : 1.45F) * ImGui::GetFontSize();
}
float heading_height() {
    return 1.5F * ImGui::GetFontSize();
}
float overview_height() {
    return 0.7F * ImGui::GetFontSize();
}

/// The moment of the cursor's tile: of results, too, which belong to all of them.
std::size_t tile_at_cursor(const App& app, const PixelHistory& history) {
    const std::size_t here = cursor_in(app, history).moment;
    if (history.moments[here].kind == Moment::Kind::tile || history.place.of_key) return here;
    const std::int64_t kv_tile = app.view.cursor.key / app.problem().block_n;
    const auto found = std::ranges::find_if(history.moments, [&](const Moment& moment) {
        return moment.kind == Moment::Kind::tile && moment.tile.kv_tile == kv_tile;
    });
    return found == history.moments.end() ? here : std::size_t(found - history.moments.begin());
}

/// The moments that there is room for: what comes out, what is loaded once, and as many tiles as are left,
/// among them the cursor's. They stay where they are as long as it is.
void choose_columns(App& app, std::size_t room, Grid& grid) {
    const PixelHistory& history = grid.history;
    const Moment& loaded = history.moments.front();
    const std::size_t first = loaded.kind == Moment::Kind::loaded ? 1 : 0;
    const std::size_t last = history.moments.size() - 1;
    const bool has_loaded = first > 0 && std::ranges::any_of(loaded.steps, [&](const HistoryStep& s) {
                                return app.has(s.stage);
                            });
    grid.whole = room >= last - first + has_loaded + 1;
    const bool with_result = grid.whole || room >= 3;
    const bool with_loaded = has_loaded && (grid.whole || room >= 5);
    const std::size_t tiles = std::min(room - with_result - with_loaded, last - first);
    const std::size_t here = std::clamp(tile_at_cursor(app, history), first, std::max(last, first + 1) - 1);
    std::size_t& begin = app.history.first_tile;
    const bool near = here + 1 >= begin && here <= begin + tiles;
    if (!near)
        begin = here - std::min(here, tiles / 2);
    else if (here < begin)
        begin = here;
    else if (here >= begin + tiles)
        begin = here + 1 - tiles;
    begin = std::clamp(begin, first, last - tiles);
    if (with_loaded) grid.columns.push_back(0);
    for (std::size_t i = 0; i < tiles; ++i) grid.columns.push_back(begin + i);
    if (with_result) grid.columns.push_back(last);
}

Grid grid_for(App& app, const PixelHistory& history, float width) {
    Grid grid{.history = history, .rows = rows_of(app, history.place.of_key), .columns = {}, .at = {}};
    const float em = ImGui::GetFontSize();
    const float letter = ImGui::CalcTextSize("0").x;
    grid.stacked = width < 60 * em;
    for (const Stage stage : grid.rows) {
        const std::string name(stage_info(app.problem(), stage).name);
        grid.label = std::max(grid.label, ImGui::CalcTextSize(name.c_str()).x);
    }
    grid.label += em;
    const float least = (grid.stacked ? stacked_letters : least_letters) * letter + 2.4F * em;
    const float room = width - grid.label;
    choose_columns(app, std::max<std::size_t>(1, std::size_t(room / least)), grid);
    grid.column = std::min(room / float(std::max<std::size_t>(1, grid.columns.size())),
                           most_letters * letter + 2.8F * em);
    grid.heading = heading_height();
    grid.row = row_height(grid.stacked);
    return grid;
}

std::string heading_of(const Moment& moment, const PixelHistory& history, const Problem& problem) {
    if (moment.kind == Moment::Kind::loaded) return "loaded";
    if (moment.kind == Moment::Kind::result) return "result";
    if (!history.place.of_key) return fmt::format("KV tile {}", moment.tile.kv_tile);
    if (problem.heads == problem.heads_kv) return fmt::format("q block {}", moment.tile.q_block);
    return fmt::format("head {} q block {}", moment.tile.head, moment.tile.q_block);
}

/// What the panel's cells are drawn with.
struct Drawing {
    App& app;
    ImDrawList& draw;
    const Grid& grid;
    HistoryCursor cursor;
    std::optional<PixelHistory::Index> first_wrong;
    std::vector<Stage> undeclared;
    bool hovered = false;  ///< the pointer is over the panel, and nothing else
};

bool contains(const Box& box, ImVec2 at) {
    return at.x >= box.x && at.y >= box.y && at.x < box.x + box.width && at.y < box.y + box.height;
}

/// Where the step at the cursor is another one, until somebody scrolls.
void scroll_to(App& app, const Box& box, PixelHistory::Index index) {
    if (std::exchange(app.history.followed, index) == index) return;
    const float top = ImGui::GetWindowPos().y;
    if (box.y < top || box.y + box.height > top + ImGui::GetWindowHeight())
        ImGui::SetScrollFromPosY(box.y + box.height / 2 - top, 0.5F);
}

void draw_step(Drawing& on, const Box& box, PixelHistory::Index index, bool named) {
    const PixelHistory& history = on.grid.history;
    const HistoryStep& step = history.moments[index.moment].steps[index.step];
    const bool undeclared = std::ranges::find(on.undeclared, step.stage) != on.undeclared.end();
    const HistoryCell cell{.step = step,
                           .box = box,
                           .stacked = on.grid.stacked,
                           .named = named,
                           .first_wrong = on.first_wrong == index,
                           .selected = on.cursor.moment == index.moment && on.cursor.step == index.step,
                           .undeclared = undeclared};
    if (cell.selected) scroll_to(on.app, box, index);
    draw_history_cell(on.app, on.draw, cell);
    if (!on.hovered || !contains(box, ImGui::GetIO().MousePos)) return;
    tooltip(on.app, describe_step(on.app, cell));
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) go_to_step(on.app, history, index);
}

void draw_column(Drawing& on, std::size_t column) {
    const Grid& grid = on.grid;
    const std::size_t at = grid.columns[column];
    const Moment& moment = grid.history.moments[at];
    const float em = ImGui::GetFontSize();
    const Box top = grid.cell(column, 0);
    const bool here = on.cursor.moment == at;
    const std::string heading = heading_of(moment, grid.history, on.app.problem());
    on.app.readout.place(fmt::format("history {}", heading),
                         {top.x, top.y, top.width, grid.height() - grid.heading});
    text_at(on.app, on.draw, {top.x, grid.at.y + 0.2F * em}, heading, here ? colours::accent : colours::dim,
            top.width);
    const Box head{top.x, grid.at.y, top.width, grid.heading};
    if (moment.kind != Moment::Kind::tile && on.hovered && contains(head, ImGui::GetIO().MousePos))
        tooltip(on.app, moment.kind == Moment::Kind::loaded ? "loaded once, before the tiles"
                                                            : "what comes out, after the tiles");
    if (here) on.draw.AddRectFilled({top.x, top.y - 3}, {top.x + top.width, top.y - 1}, colours::accent);
    // What tiles are not in left out between two columns.
    if (column > 0 && grid.columns[column - 1] + 1 != at)
        on.draw.AddText({top.x - 1.35F * em, grid.at.y + 0.2F * em}, colours::dim, "..");
    const bool named = moment.kind != Moment::Kind::tile;
    std::size_t row = 0;
    for (std::size_t i = 0; i < moment.steps.size(); ++i) {
        const Stage stage = moment.steps[i].stage;
        if (!named) {
            const auto found = std::ranges::find(grid.rows, stage);
            if (found == grid.rows.end() || !on.app.has(stage)) continue;
            row = std::size_t(found - grid.rows.begin());
        }
        draw_step(on, grid.cell(column, row), {at, i}, named);
        ++row;
    }
}

/// Names of the rows, and what was not recorded of any tile.
void draw_rows(Drawing& on) {
    const Grid& grid = on.grid;
    const float em = ImGui::GetFontSize();
    std::size_t first_tile = 0;
    while (first_tile < grid.columns.size() &&
           grid.history.moments[grid.columns[first_tile]].kind != Moment::Kind::tile)
        ++first_tile;
    for (std::size_t i = 0; i < grid.rows.size(); ++i) {
        const Stage stage = grid.rows[i];
        const Box box = grid.cell(0, i);
        const std::string name(stage_info(on.app.problem(), stage).name);
        const bool chosen = on.app.view.stage == stage;
        const float y = std::round(box.y + (grid.row - 2 - em) / 2);
        on.draw.AddText({grid.at.x, y}, chosen ? colours::accent : colours::dim, name.c_str());
        if (on.app.has(stage) || first_tile == grid.columns.size()) continue;
        const float x = grid.cell(first_tile, i).x + 0.5F * em;
        const float room = grid.column * float(grid.columns.size() - first_tile) - em;
        on.app.readout.add(fmt::format("step {} not recorded", name));
        on.draw.AddText({std::round(x), y}, colours::absent, ellipsized("not recorded", room).c_str());
    }
}

/// The worst of a moment's steps.
StepState worst_of(const Moment& moment, const std::vector<Stage>& undeclared) {
    StepState worst = StepState::not_recorded;
    for (const HistoryStep& step : moment.steps) {
        if (std::ranges::find(undeclared, step.stage) != undeclared.end()) continue;
        const StepState state = step.wrong > 0       ? StepState::wrong
                                : step.inherited > 0 ? StepState::inherited
                                                     : step.state;
        worst = std::max(worst, state);
    }
    return worst;
}

/// Share of the bar's height: what is worse is higher.
float height_of(StepState state) {
    constexpr std::array<float, step_state_count> heights = {0, 0, 0.3F, 0.3F, 0.65F, 1};
    return heights[std::size_t(state)];
}

/// A thin bar of all moments, the worst of each pixel, with the columns that are shown.
void draw_overview(Drawing& on, const Box& box) {
    const auto& moments = on.grid.history.moments;
    const auto pixels = std::size_t(std::max(1.0F, box.width));
    const std::size_t count = moments.size();
    on.draw.AddRectFilled({box.x, box.y}, {box.x + box.width, box.y + box.height}, colours::canvas);
    const auto x_of = [&](std::size_t moment) { return box.x + box.width * float(moment) / float(count); };
    std::size_t wrong = 0;
    const std::size_t bars = std::min(pixels, count);
    for (std::size_t bar = 0; bar < bars; ++bar) {
        StepState worst = StepState::not_recorded;
        for (std::size_t i = bar * count / bars; i < (bar + 1) * count / bars; ++i) {
            const StepState state = worst_of(moments[i], on.undeclared);
            wrong += state == StepState::wrong;
            worst = std::max(worst, state);
        }
        const float left = box.x + box.width * float(bar) / float(bars);
        const float right = box.x + box.width * float(bar + 1) / float(bars);
        on.draw.AddRectFilled({left, box.y + box.height * (1 - height_of(worst))},
                              {std::max(left + 1, right - (right - left > 3 ? 1 : 0)), box.y + box.height},
                              colour_of(worst));
    }
    const auto is_tile = [&](std::size_t i) { return moments[i].kind == Moment::Kind::tile; };
    std::vector<std::size_t> shown;
    std::ranges::copy_if(on.grid.columns, std::back_inserter(shown), is_tile);
    if (!shown.empty())
        on.draw.AddRect({x_of(shown.front()) - 1, box.y - 1},
                        {x_of(shown.back() + 1) + 1, box.y + box.height + 1}, colours::text);
    on.app.readout.place("history overview", box);
    on.app.readout.add(fmt::format("overview: {} of {} wrong", wrong, count));
    if (!on.hovered || !contains(box, ImGui::GetIO().MousePos)) return;
    const auto pointed =
        std::min(count - 1, std::size_t((ImGui::GetIO().MousePos.x - box.x) / box.width * float(count)));
    tooltip(on.app, fmt::format("{}: {}", heading_of(moments[pointed], on.grid.history, on.app.problem()),
                                to_string(worst_of(moments[pointed], on.undeclared))));
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) go_to_moment(on.app, on.grid.history, pointed);
}

/// Beside what was drawn last where there is room, otherwise below.
void flow(float width) {
    const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
    if (ImGui::GetItemRectMax().x + ImGui::GetFontSize() + width <= right)
        ImGui::SameLine(0, ImGui::GetFontSize());
}

void flow_text(App& app, const std::string& line, ImU32 colour) {
    flow(ImGui::CalcTextSize(line.c_str()).x);
    ImGui::AlignTextToFramePadding();
    text(app, line, colour);
}

bool has_step_not_judged(const Drawing& on) {
    const auto not_judged = [&](const HistoryStep& step) {
        const bool undeclared = std::ranges::find(on.undeclared, step.stage) != on.undeclared.end();
        return step.state == StepState::not_judged || (undeclared && step.element);
    };
    return std::ranges::any_of(on.grid.history.moments, [&](const Moment& moment) {
        return std::ranges::any_of(moment.steps, not_judged);
    });
}

void draw_legend(const Drawing& on) {
    App& app = on.app;
    const float em = ImGui::GetFontSize();
    const bool pair = app.document->pair();
    for (const StepState state :
         {StepState::right, StepState::inherited, StepState::wrong, StepState::not_judged}) {
        // Two recordings have no inputs alone to be held against.
        if (pair && state == StepState::inherited) continue;
        if (state == StepState::not_judged && !has_step_not_judged(on)) continue;
        const std::string word(word_of(state, pair));
        flow(em + ImGui::CalcTextSize(word.c_str()).x);
        const ImVec2 at = ImGui::GetCursorScreenPos();
        draw_step_mark(*ImGui::GetWindowDrawList(), {at.x + 0.4F * em, at.y + ImGui::GetFrameHeight() / 2},
                       0.3F * em, state);
        ImGui::Dummy({0.9F * em, ImGui::GetFrameHeight()});
        ImGui::SameLine(0, 0);
        ImGui::AlignTextToFramePadding();
        text(app, word, colours::dim);
        if (ImGui::IsItemHovered()) tooltip(app, fmt::format("{}: {}", word, says(state, pair)));
    }
}

std::string name_of(const PixelHistory& history, PixelHistory::Index index, const App& app) {
    const Moment& moment = history.moments[index.moment];
    std::string name(stage_info(app.problem(), moment.steps[index.step].stage).name);
    if (moment.kind == Moment::Kind::tile) name += " in " + heading_of(moment, history, app.problem());
    return name;
}

/// What it is of, what is wrong first, and what the marks mean.
void draw_title(Drawing& on) {
    App& app = on.app;
    const PixelHistory& history = on.grid.history;
    ImGui::AlignTextToFramePadding();
    // The tab says what it is.
    const std::string name = (on.grid.stacked ? "" : "History of ") + title_of(history, app);
    text(app, name);
    if (on.first_wrong) {
        const std::string whole = (app.document->pair() ? "first to differ: " : "first wrong: ") +
                                  name_of(history, *on.first_wrong, app);
        const float padding = 2 * ImGui::GetStyle().FramePadding.x;
        flow(ImGui::CalcTextSize(whole.c_str()).x + padding);
        app.readout.add(whole);
        const std::string label = ellipsized(whole, ImGui::GetContentRegionAvail().x - padding);
        if (choice(label.c_str(), false, colours::bad)) go_to_step(app, history, *on.first_wrong);
        if (ImGui::IsItemHovered() && label != whole) tooltip(app, whole);
        if (ImGui::IsItemHovered())
            tooltip(app, app.document->pair()
                             ? "the first step in order of time in which the two recordings differ"
                             : "the first step in order of time that the steps before it do not explain");
        const ImVec2 at = ImGui::GetItemRectMin();
        const ImVec2 size = ImGui::GetItemRectSize();
        app.readout.place("history first", {at.x, at.y, size.x, size.y});
    } else {
        flow_text(app, app.document->pair() ? "nothing differs in it" : "nothing wrong in it", colours::dim);
    }
    const std::string second = app.document->pair() ? "the other in grey" : "expected in grey";
    if (on.grid.stacked) return;
    flow_text(app, app.view.flipped ? second + ", then dumped" : "dumped, " + second, colours::dim);
    if (!app.document->pair() && ImGui::IsItemHovered())
        tooltip(
            app,
            "expected: what the stages before give; of what inherited an error what the inputs give, too");
    draw_legend(on);
    flow_text(app, on.app.history.focused ? "arrows walk here, Escape leaves" : "a click: arrows walk here",
              on.app.history.focused ? colours::accent : colours::dim);
}

void history_contents(App& app) {
    const auto history = ask_history(app);
    if (history == nullptr || history->moments.empty()) {
        title(app, "History");
        if (history == nullptr) return text_waiting(app, "being judged");
        return text(app, "beyond the lengths of this batch entry", colours::dim);
    }
    Grid grid = grid_for(app, *history, ImGui::GetContentRegionAvail().x);
    const std::vector<Stage> undeclared = undeclared_stages(app);
    Drawing on{.app = app,
               .draw = *ImGui::GetWindowDrawList(),
               .grid = grid,
               .cursor = cursor_in(app, *history),
               .first_wrong = history->first_wrong(undeclared),
               .undeclared = undeclared,
               .hovered = ImGui::IsWindowHovered()};
    draw_title(on);
    if (!grid.whole) {
        const ImVec2 at = ImGui::GetCursorScreenPos();
        const float width = grid.column * float(grid.columns.size());
        draw_overview(on, {at.x + grid.label, at.y, width, overview_height()});
        ImGui::Dummy({width, overview_height()});
    }
    grid.at = ImGui::GetCursorScreenPos();
    draw_rows(on);
    for (std::size_t i = 0; i < grid.columns.size(); ++i) draw_column(on, i);
    ImGui::Dummy({0, grid.height()});
    // A click anywhere else takes the arrows away.
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) app.history.focused = on.hovered;
}

}  // namespace

float history_height(const App& app) {
    if (app.document == nullptr || app.history.in_tab || !app.settings.history) return 0;
    const bool of_key = app.history.shown != nullptr && app.history.shown->place.of_key;
    const std::size_t rows = std::max(rows_of(app, of_key).size(), rows_of(app, false).size());
    return 2 * ImGui::GetStyle().WindowPadding.y + ImGui::GetFrameHeight() + overview_height() +
           2 * ImGui::GetStyle().ItemSpacing.y + heading_height() + float(rows) * row_height(false);
}

void draw_history(App& app, const Box& box) {
    const PanelScope panel(app, "history", box);
    history_contents(app);
}

void draw_history_tab(App& app) {
    history_contents(app);
}

}  // namespace tilescope::viewer
