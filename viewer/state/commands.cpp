#include "viewer/state/commands.h"

#include <GLFW/glfw3.h>
#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include "viewer/state/app.h"
#include "viewer/state/causes_state.h"
#include "viewer/state/export.h"
#include "viewer/window/imgui_input.h"
#include "viewer/window/input.h"

namespace tilescope::viewer {

namespace {

constexpr double zoom_step = 0.7;
/// Elements that are shown each way by the command that zooms to the element, and letters that one needs for
/// its numbers.
constexpr double most_elements_with_numbers = 7;
constexpr double letters_of_numbers = 13;

void move_by(App& app, std::int64_t rows, std::int64_t cols) {
    const Stage stage = app.view.stage;
    const Plane plane = plane_at(app.problem(), app.view.cursor, stage);
    PlanePoint point = point_at(app.problem(), app.view.cursor, stage);
    point.row += rows;
    point.col += cols;
    go_to(app, stage, cursor_at(app.problem(), app.view.cursor, plane, point), true);
}

/// An arrow walks through the history where that has the arrows.
void arrow(App& app, int rows, int cols) {
    if (app.shows_declared()) return move_in_sheet(app, rows, cols);
    if (history_takes_arrows(app))
        walk_history(app, cols, rows);
    else
        move_by(app, rows, cols);
}

void move_by_tiles(App& app, std::int64_t rows, std::int64_t cols) {
    if (app.shows_declared()) return move_by_blocks(app, rows, cols);
    const PlaneShape shape = plane_shape(app.problem(), app.view.stage);
    move_by(app, rows * shape.tile_rows, cols * shape.tile_cols);
}

void pan_by(App& app, double rows, double cols) {
    if (app.shows_declared()) return pan_sheet_by(app, rows, cols);
    const PlaneView view = app.view.ranges.view(app.problem(), app.view.stage);
    app.placed_by_report = true;
    app.view.ranges.pan(app.problem(), app.view.stage, rows * view.rows / 8, cols * view.cols / 8);
}

void zoom_by(App& app, double factor) {
    if (app.shows_declared()) return zoom_sheet_by(app, factor);
    const PlanePoint point = point_at(app.problem(), app.view.cursor, app.view.stage);
    app.placed_by_report = true;
    app.view.ranges.zoom(app.problem(), app.view.stage, factor, double(point.row) + 0.5,
                         double(point.col) + 0.5);
}

void fit_everything(App& app) {
    if (app.shows_declared()) return fit_sheet(app);
    app.view.ranges.fit(app.problem());
    app.view.map = {};
}

void step_stage(App& app, int step) {
    if (app.shows_declared()) return step_declared_stage(app, step);
    for (int i = 1; i <= stage_count; ++i) {
        const auto stage = Stage((int(app.view.stage) + (step * i) + 2 * stage_count) % stage_count);
        if (app.has(stage)) return select_stage(app, stage);
    }
}

void centre(App& app) {
    if (app.shows_declared()) return centre_sheet(app);
    app.view.ranges.centre_on(app.problem(), app.view.cursor);
}

void step_head(App& app, int step) {
    const Problem& problem = app.problem();
    const std::int64_t heads = problem.batch * problem.heads;
    Cursor cursor = app.view.cursor;
    const std::int64_t index = (cursor.batch * problem.heads + cursor.head + step + heads) % heads;
    cursor.batch = index / problem.heads;
    cursor.head = index % problem.heads;
    go_to(app, app.view.stage, cursor, true);
}

void step_kv_tile(App& app, int step) {
    Cursor cursor = app.view.cursor;
    const std::int64_t tiles = app.problem().kv_tiles();
    const std::int64_t tile = (cursor.key / app.problem().block_n + step + tiles) % tiles;
    cursor.key = tile * app.problem().block_n;
    go_to(app, app.view.stage, cursor, true);
}

template <Quantity quantity>
void choose(App& app) {
    app.view.quantity = quantity;
}

ScaleChoice& scale_of(App& app) {
    return app.settings.scales[std::size_t(app.view.quantity)];
}

void next_scale(App& app) {
    ScaleChoice& scale = scale_of(app);
    scale.kind = ScaleKind((int(scale.kind) + 1) % scale_kind_count);
}

void next_clip(App& app) {
    constexpr std::array clips = {0.0, 0.001, 0.01, 0.05};
    ScaleChoice& scale = scale_of(app);
    const auto* next = std::ranges::upper_bound(clips, scale.clip);
    scale.clip = next == clips.end() ? clips.front() : *next;
    app.notice = fmt::format("{:g} % of the values are clipped at either end", 100 * scale.clip);
}

void next_colours(App& app) {
    ScaleChoice& scale = scale_of(app);
    scale.colours = ColourMap((int(scale.colours) + 1) % colour_map_count);
}

void copy(App& app) {
    const std::string place = app.ranks.shown        ? coordinates_of(*app.ranks.run, app.ranks.cell)
                              : app.shows_declared() ? declared_coordinates(app, index_shown(app))
                                                     : coordinates_of(app.problem(), selected_element(app));
    ImGui::SetClipboardText((place + "\n" + tile_diff_command(app)).c_str());
    app.notice = fmt::format("copied {} and its tile-diff command", place);
}

void copy_view(App& app) {
    const std::string command = tile_view_command(app);
    ImGui::SetClipboardText(command.c_str());
    app.notice = "copied " + command;
}

/// The next of the choices after `value`; the first after the last.
template <std::size_t count>
int next_of(const std::array<int, count>& choices, int value) {
    const auto* next = std::ranges::upper_bound(choices, value);
    return next == choices.end() ? choices.front() : *next;
}

/// The grid gives way to the threads that a recording declares.
std::string where_grid_is(const App& app) {
    const bool declared =
        app.document != nullptr && app.document->recording->threads()[app.view.stage].declared();
    return declared ? ", in stages whose threads are not declared" : "";
}

void next_warp_rows(App& app) {
    constexpr std::array choices = {1, 2, 4, 8, 16, 32, 64, 128};
    app.settings.warp_lines = true;
    app.settings.warp_rows = next_of(choices, app.settings.warp_rows);
    app.notice = fmt::format("a warp every {} rows{}", app.settings.warp_rows, where_grid_is(app));
}

void next_lane_columns(App& app) {
    constexpr std::array choices = {1, 2, 4, 8, 16, 32, 64};
    app.settings.warp_lines = true;
    app.settings.lane_columns = next_of(choices, app.settings.lane_columns);
    app.notice = fmt::format("a lane every {} columns{}", app.settings.lane_columns, where_grid_is(app));
}

void next_table_stage(App& app) {
    const auto stages = stages_of(app.problem());
    const auto now = std::ranges::find(stages, app.bad.list.stage, &StageInfo::stage);
    const bool last = now == stages.end() || now + 1 == stages.end();
    app.bad.list.stage = (last ? stages.begin() : now + 1)->stage;
}

/// Begins with the place that is looked at, to be changed.
void open_goto(App& app) {
    app.show_goto = true;
    const std::string place = app.shows_declared() ? declared_coordinates(app, index_shown(app))
                                                   : coordinates_of(app.problem(), selected_element(app));
    const std::size_t length = std::min(place.size(), app.goto_input.size() - 1);
    app.goto_input.fill(0);
    std::ranges::copy_n(place.begin(), std::ptrdiff_t(length), app.goto_input.begin());
}

/// What the status names.
void cancel(App& app) {
    if (!app.session.status().message.empty()) app.session.cancel();
    if (!app.run_session.status().message.empty()) app.run_session.cancel();
    app.ranks.entering.clear();
    app.notice = "cancelled";
}

void leave(App& app) {
    if (ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) {
        ImGui::ClosePopupToLevel(0, true);
    } else if (app.show_help || app.show_recent || app.show_goto || app.search.shown || app.files.shown) {
        app.show_help = app.show_recent = app.show_goto = app.search.shown = app.files.shown = false;
    } else if (!app.status.error.empty()) {
        app.session.dismiss_error();
        app.run_session.dismiss_error();
    } else if (!app.status.message.empty()) {
        cancel(app);
    } else if (app.view.region || app.history.focused || !app.notice.empty() || !leave_recording(app)) {
        app.view.region.reset();
        app.history.focused = false;
        app.notice.clear();
    }
}

void to_first_wrong_element(App& app) {
    if (!go_to_first_wrong(app)) app.notice = "nothing diverges";
}

void to_first_divergence(App& app) {
    if (app.shows_declared()) return to_first_wrong_element(app);
    if (!go_to_wrong_of_run(app) && !go_to_first_divergence(app))
        app.notice = app.document->report == nullptr ? "not judged yet" : "nothing diverges";
}

void to_first_wrong(App& app) {
    if (!choose_first_wrong(app))
        app.notice = app.ranks.run->report == nullptr ? "not judged yet" : "nothing diverges";
}

/// To the place before; from where it began, up.
void go_back(App& app) {
    if (app.visits.here > 0 || !leave_recording(app)) walk_visits(app, -1);
}

void reload(App& app) {
    if (app.ranks.shown || (app.document != nullptr && app.document->of_run))
        app.run_session.reload();
    else
        app.session.reload();
}

namespace group {
constexpr std::string_view go = "Go";
constexpr std::string_view of_ranks = "Ranks and steps";
constexpr std::string_view of_declared = "Declared kernels";
constexpr std::string_view look = "Look";
constexpr std::string_view colour = "Colours and lines";
constexpr std::string_view table = "Bad rows";
constexpr std::string_view file = "File";
}  // namespace group

using enum Needs;
constexpr std::array commands = {
    Command{group::go, "Home", "first divergence", elements, false, to_first_divergence},
    Command{group::go, "Enter", "show me: the evidence, step by step", recording, false, show_next_step},
    Command{group::go, "N", "next bad row", recording, true, [](App& a) { walk_bad(a, false, 1); }},
    Command{group::go, "Shift+N", "previous bad row", recording, true,
            [](App& a) { walk_bad(a, false, -1); }},
    Command{group::go, "T", "next bad tile", recording, true, [](App& a) { walk_bad(a, true, 1); }},
    Command{group::go, "Shift+T", "previous bad tile", recording, true,
            [](App& a) { walk_bad(a, true, -1); }},
    Command{group::go, "H", "next bad head", recording, true, [](App& a) { walk_bad_heads(a, 1); }},
    Command{group::go, "Shift+H", "previous bad head", recording, true,
            [](App& a) { walk_bad_heads(a, -1); }},
    Command{group::go, "Left", "arrows: neighbouring element; in the history KV tile and stage", elements,
            true, [](App& a) { arrow(a, 0, -1); }},
    Command{group::go, "Right", "", elements, true, [](App& a) { arrow(a, 0, 1); }},
    Command{group::go, "Up", "", elements, true, [](App& a) { arrow(a, -1, 0); }},
    Command{group::go, "Down", "", elements, true, [](App& a) { arrow(a, 1, 0); }},
    Command{group::go, "Shift+Left", "Shift and arrows: neighbouring tile", elements, true,
            [](App& a) { move_by_tiles(a, 0, -1); }},
    Command{group::go, "Shift+Right", "", elements, true, [](App& a) { move_by_tiles(a, 0, 1); }},
    Command{group::go, "Shift+Up", "", elements, true, [](App& a) { move_by_tiles(a, -1, 0); }},
    Command{group::go, "Shift+Down", "", elements, true, [](App& a) { move_by_tiles(a, 1, 0); }},
    Command{group::go, "]", "next head", recording, true, [](App& a) { step_head(a, 1); }},
    Command{group::go, "[", "previous head", recording, true, [](App& a) { step_head(a, -1); }},
    Command{group::go, ".", "next KV tile", recording, true, [](App& a) { step_kv_tile(a, 1); }},
    Command{group::go, ",", "previous KV tile", recording, true, [](App& a) { step_kv_tile(a, -1); }},
    Command{group::go, "Backspace", "back to the place before", recording, false, go_back},
    Command{group::go, "Shift+Backspace", "forward again", recording, false,
            [](App& a) { walk_visits(a, 1); }},
    Command{group::go, "J", "jump to coordinates", elements, false, open_goto},
    Command{group::go, "Ctrl+Backspace", "up to ranks and steps, of a recording of a run", recording, false,
            go_up},

    Command{group::of_ranks, "Enter", "open the recording (also a double click)", run_of_ranks, false,
            enter_recording},
    Command{group::of_ranks, "Left", "arrows: neighbouring rank and step", run_of_ranks, true,
            [](App& a) { move_cell(a, 0, -1); }},
    Command{group::of_ranks, "Right", "", run_of_ranks, true, [](App& a) { move_cell(a, 0, 1); }},
    Command{group::of_ranks, "Up", "", run_of_ranks, true, [](App& a) { move_cell(a, -1, 0); }},
    Command{group::of_ranks, "Down", "", run_of_ranks, true, [](App& a) { move_cell(a, 1, 0); }},
    Command{group::of_ranks, "Home", "first wrong rank and step", run_of_ranks, false, to_first_wrong},
    Command{group::of_ranks, "N", "next wrong rank and step", run_of_ranks, true,
            [](App& a) { walk_wrong_cells(a, 1); }},
    Command{group::of_ranks, "Shift+N", "previous wrong rank and step", run_of_ranks, true,
            [](App& a) { walk_wrong_cells(a, -1); }},

    Command{group::of_declared, "N", "next of the worst elements", declared, true,
            [](App& a) { walk_worst(a, 1); }},
    Command{group::of_declared, "Shift+N", "previous of the worst elements", declared, true,
            [](App& a) { walk_worst(a, -1); }},
    Command{group::of_declared, "]", "next index of the axes before rows and columns", declared, true,
            [](App& a) { step_leading(a, 1); }},
    Command{group::of_declared, "[", "previous index of these axes", declared, true,
            [](App& a) { step_leading(a, -1); }},
    Command{group::of_declared, ".", "state after the next block", declared, true,
            [](App& a) { step_blocks(a, 1); }},
    Command{group::of_declared, ",", "state after the block before", declared, true,
            [](App& a) { step_blocks(a, -1); }},

    Command{group::look, "1", "dumped", elements, false, choose<Quantity::dumped>},
    Command{group::look, "2", "expected", elements, false, choose<Quantity::expected>},
    Command{group::look, "3", "difference", elements, false, choose<Quantity::difference>},
    Command{group::look, "4", "difference / budget", elements, false, choose<Quantity::over_budget>},
    Command{group::look, "5", "ulps", elements, false, choose<Quantity::ulps>},
    Command{group::look, "6", "relative error", elements, false, choose<Quantity::relative>},
    Command{group::look, "7", "replayed with the cause", recording, false, choose<Quantity::replayed>},
    Command{group::look, "8", "unexplained: difference to the replay / budget", recording, false,
            choose<Quantity::unexplained>},
    Command{
        group::look, "I", "local: of the stages before, or end to end: of the inputs alone", elements, false,
        [](App& a) {
            choose_reference(a,
                             a.view.against == Reference::local ? Reference::end_to_end : Reference::local);
        }},
    Command{group::look, "Space", "held: expected in place of dumped, dumped in place of replayed", recording,
            false, [](App&) {}},
    Command{group::look, "Shift+Space", "held: replayed in place of dumped", recording, false, [](App&) {}},
    Command{group::look, "D", "causes, next cause", recording, false, [](App& a) { walk_causes(a, 1); }},
    Command{group::look, "Shift+D", "previous cause", recording, false, [](App& a) { walk_causes(a, -1); }},
    Command{group::look, "PageDown", "next stage", elements, false, [](App& a) { step_stage(a, 1); }},
    Command{group::look, "PageUp", "previous stage", elements, false, [](App& a) { step_stage(a, -1); }},
    Command{group::look, "V", "one heatmap, four quantities, four stages", recording, false,
            [](App& a) { a.view.layout = Layout((int(a.view.layout) + 1) % layout_count); }},
    Command{group::look, "Tab", "row, drift, histogram, budget, causes, source", elements, false, next_tab},
    Command{group::look, "Q", "history: shown, with the arrows, or hidden", elements, false, toggle_history},
    Command{group::look, "+", "zoom in (also the wheel)", elements, true,
            [](App& a) { zoom_by(a, zoom_step); }},
    Command{group::look, "=", "", elements, true, [](App& a) { zoom_by(a, zoom_step); }},
    Command{group::look, "-", "zoom out", elements, true, [](App& a) { zoom_by(a, 1 / zoom_step); }},
    Command{group::look, "Z", "zoom to the element and its numbers (also a double click)", elements, false,
            [](App& a) { viewer::zoom_to_element(a); }},
    Command{group::look, "F", "fit everything", elements, false, fit_everything},
    Command{group::look, "C", "centre the element", elements, false, centre},
    Command{group::look, "Ctrl+Left", "Ctrl and arrows: move the view", elements, true,
            [](App& a) { pan_by(a, 0, -1); }},
    Command{group::look, "Ctrl+Right", "", elements, true, [](App& a) { pan_by(a, 0, 1); }},
    Command{group::look, "Ctrl+Up", "", elements, true, [](App& a) { pan_by(a, -1, 0); }},
    Command{group::look, "Ctrl+Down", "", elements, true, [](App& a) { pan_by(a, 1, 0); }},

    Command{group::colour, "L", "linear, logarithmic, symlog", elements, false, next_scale},
    Command{group::colour, "A", "range found or fixed", elements, false,
            [](App& a) { toggle_fixed_range(a); }},
    Command{group::colour, "P", "percentile clip", elements, false, next_clip},
    Command{group::colour, "K", "colour map", elements, false, next_colours},
    Command{group::colour, "G", "tile grid", nothing, false,
            [](App& a) { a.settings.tile_grid = !a.settings.tile_grid; }},
    Command{group::colour, "M", "edges of the mask", nothing, false,
            [](App& a) { a.settings.mask_edges = !a.settings.mask_edges; }},
    Command{group::colour, "W", "warps and lanes", nothing, false,
            [](App& a) { a.settings.warp_lines = !a.settings.warp_lines; }},
    Command{group::colour, "S", "colour by warp, lane, register", recording, false,
            [](App& a) { a.view.coloured_by = next_colouring(a.view.coloured_by); }},
    Command{group::colour, "Shift+S", "the cursor's thread, warp, lane, register alone", recording, false,
            [](App& a) { a.view.alone = next_alone(a.view.alone); }},
    Command{group::colour, "Shift+W", "rows of a warp", nothing, false, next_warp_rows},
    Command{group::colour, "Ctrl+W", "columns of a lane", nothing, false, next_lane_columns},

    Command{group::table, "B", "ranges, rows or tiles in the table", recording, false,
            [](App& a) { a.bad.list.listed = Listed((int(a.bad.list.listed) + 1) % listed_count); }},
    Command{group::table, "Y", "kind in the table", recording, false,
            [](App& a) { a.bad.list.filter = BadFilter((int(a.bad.list.filter) + 1) % bad_filter_count); }},
    Command{group::table, "U", "stage of the table", recording, false, next_table_stage},
    Command{group::table, "R", "sort by the next column", recording, false,
            [](App& a) { a.bad.sort_next = true; }},
    Command{group::file, "Ctrl+C", "copy coordinates and the tile-diff command", something, false, copy},
    Command{group::file, "Ctrl+Shift+C", "copy the tile-view command that shows this", something, false,
            copy_view},
    Command{group::file, "E", "write the heatmaps as PNG", elements, false,
            [](App& a) { a.png = free_name("png"); }},
    Command{group::file, "Ctrl+E", "write the panel under the pointer as PNG", something, false,
            export_panel},
    Command{group::file, "Shift+E", "write every panel as PNG", something, false, export_panels},
    Command{group::file, "X", "write the selection as .npy", elements, false, export_selection},
    Command{group::file, "Ctrl+O", "open a recording", nothing, false, toggle_file_list},
    Command{group::file, "O", "recent files", nothing, false, [](App& a) { a.show_recent = !a.show_recent; }},
    Command{group::file, "Ctrl+PageUp", "recording before, of a watched folder", nothing, false,
            [](App& a) { walk_recordings(a, -1); }},
    Command{group::file, "Ctrl+PageDown", "recording after it", nothing, false,
            [](App& a) { walk_recordings(a, 1); }},
    Command{group::file, "F5", "read the file again", something, false, reload},
    Command{group::file, "Escape", "close, dismiss, cancel", nothing, false, leave},
    Command{group::file, "Ctrl+P", "search the commands", nothing, false,
            [](App& a) { a.search = {.shown = !a.search.shown}; }},
    Command{group::file, "?", "this help", nothing, false, [](App& a) { a.show_help = !a.show_help; }},
    Command{group::file, "F1", "", nothing, false, [](App& a) { a.show_help = !a.show_help; }},
    Command{group::file, "Ctrl+Q", "quit", nothing, false, [](App& a) { a.quit = true; }},
};

bool is_asked(const KeyChord& chord, bool repeats, std::span<const TypedCharacter> typed) {
    const ImGuiIO& io = ImGui::GetIO();
    if (chord.is_character())
        return std::ranges::any_of(typed, [&](const TypedCharacter& character) {
            return character.code == chord.key && (repeats || !character.repeated);
        });
    // AltGr and a letter type another character.
    const bool letter = chord.key > GLFW_KEY_SPACE && chord.key < 128;
    if (chord.shift != io.KeyShift || chord.control != io.KeyCtrl || (letter && io.KeyAlt)) return false;
    return key_pressed(chord.key, repeats);
}

}  // namespace

std::span<const Command> all_commands() {
    return commands;
}

void zoom_to_element(App& app) {
    if (app.shows_declared()) return zoom_sheet_to_element(app);
    app.view.ranges.centre_on(app.problem(), app.view.cursor);
    const PlaneView view = app.view.ranges.view(app.problem(), app.view.stage);
    const double letter = double(ImGui::CalcTextSize("0").x);
    const double fit = double(app.panes[0].shown().width) / (letters_of_numbers * letter);
    zoom_by(app, std::clamp(fit, 1.0, most_elements_with_numbers) / std::max(view.rows, view.cols));
    app.view.ranges.show(app.problem(), app.view.cursor, app.view.stage);
}

std::vector<const Command*> commands_with(std::string_view typed) {
    std::istringstream stream(lower_case(typed));
    const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    std::vector<const Command*> found;
    for (const Command& command : commands) {
        const std::string line =
            lower_case(fmt::format("{} {} {}", command.group, command.key, command.help));
        const bool all = std::ranges::all_of(
            words, [&](const std::string& word) { return line.find(word) != std::string::npos; });
        if (all && !command.help.empty()) found.push_back(&command);
    }
    return found;
}

namespace {

/// Why it cannot be run; empty where it can.
std::string_view why_not(const App& app, Needs needs) {
    if (needs != nothing && !app.shows_anything()) return "no recording is open; drop one here";
    const bool of_recordings = needs == recording || needs == declared || needs == elements;
    if (of_recordings && app.ranks.shown)
        return "that is of a recording; Enter opens that of the rank and step";
    if (needs == recording && app.shows_declared()) return "that is of attention, which this kernel is not";
    if (needs == declared && app.shows_recording()) return "that is of declared kernels; this is attention";
    if (needs == run_of_ranks && !app.ranks.shown)
        return "that is of ranks and steps, of which none are shown";
    return "";
}

void run(App& app, const Command& command) {
    const std::string_view why = why_not(app, command.needs);
    if (!why.empty())
        app.notice = why;
    else
        command.run(app);
}

}  // namespace

void run_commands(App& app, std::span<const TypedCharacter> typed) {
    const ImGuiIO& io = ImGui::GetIO();
    app.view.flipped = !io.WantTextInput && key_held(GLFW_KEY_SPACE);
    app.view.to_replay = app.view.flipped && io.KeyShift;
    if (const Command* chosen = std::exchange(app.chosen_command, nullptr)) return run(app, *chosen);
    const Command* asked = nullptr;
    for (const Command& command : commands) {
        const KeyChord chord = *chord_from_name(command.key);
        // What is typed belongs to the field, but for the key that leaves it.
        if (io.WantTextInput && chord.key != GLFW_KEY_ESCAPE) continue;
        if (!is_asked(chord, command.repeats, typed)) continue;
        // Some keys do another thing on each level.
        if (asked == nullptr || why_not(app, command.needs).empty()) asked = &command;
    }
    if (asked != nullptr) run(app, *asked);
}

}  // namespace tilescope::viewer
