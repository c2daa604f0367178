#include "viewer/state/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "dump/schema/error.h"
#include "dump/schema/shell_word.h"
#include "oracle/ranks/rank_report.h"
#include "oracle/report/text.h"
#include "viewer/state/bad_ranges.h"
#include "viewer/state/row_kinds.h"
#include "viewer/state/selection.h"

namespace tilescope::viewer {

namespace {

struct LayoutName {
    Layout layout;
    std::string_view name;
};
constexpr std::array<LayoutName, layout_count> layout_names = {{
    {Layout::single, "one"},
    {Layout::compare, "compare"},
    {Layout::stages, "stages"},
}};

struct TabName {
    Tab tab;
    std::string_view name;
};
constexpr std::array<TabName, tab_count> tab_names = {{
    {Tab::row, "Row"},
    {Tab::drift, "Drift"},
    {Tab::histogram, "Histogram"},
    {Tab::budget, "Budget"},
    {Tab::causes, "Causes"},
    {Tab::source, "Source"},
    {Tab::history, "History"},
    {Tab::map, "Map"},
    {Tab::bad_rows, "Bad"},
}};

/// Those that a declared kernel has.
constexpr std::array declared_tabs = {Tab::histogram, Tab::budget, Tab::causes, Tab::source};

/// What is shown before anything was judged: the first of these that was captured.
constexpr std::array first_choice = {Stage::s,  Stage::p,  Stage::acc, Stage::o,    Stage::m,    Stage::l,
                                     Stage::q,  Stage::k,  Stage::v,   Stage::lse,  Stage::ds,   Stage::dp,
                                     Stage::dq, Stage::dk, Stage::dv,  Stage::dout, Stage::delta};

/// Order of the places of a list, as find_bad_places() has it.
std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> order_of(const BadPlace& place,
                                                                            bool tiles) {
    return {place.batch, place.head, place.row, tiles ? place.kv_tile : 0};
}

BadPlace place_of_cursor(const App& app, Stage stage, bool tiles) {
    const Problem& problem = app.problem();
    const Cursor& cursor = app.view.cursor;
    const bool keys = row_axis_of(problem, stage) == ViewAxis::key;
    const std::int64_t block = keys ? problem.block_n : problem.block_m;
    const std::int64_t row = keys ? cursor.key : cursor.row;
    return {.batch = cursor.batch,
            .head = head_in(problem, stage, cursor.head),
            .row = tiles ? row / block * block : row,
            .last_row = row,
            .kv_tile = stage_info(problem, stage).per_kv_tile ? cursor.key / problem.block_n : 0,
            .q_block = stage_info(problem, stage).per_q_block ? cursor.row / problem.block_m : 0,
            .elements = 0};
}

/// The places of the stage that is looked at, or of the first one that has any.
std::pair<BadList, std::vector<BadPlace>> places_to_walk(const App& app, bool tiles) {
    BadList list = app.bad.list;
    list.stage = app.view.stage;
    const bool listed_tiles = list.listed == Listed::tiles;
    const bool known = list == app.bad.found && app.bad.complete && !tiles && !listed_tiles;
    list.listed = tiles ? Listed::tiles : Listed::rows;
    std::vector<BadPlace> places = known ? app.bad.rows : find_bad_places(*app.document, list);
    for (const StageInfo& info : stages_of(app.problem())) {
        if (!places.empty()) break;
        list.stage = info.stage;
        places = find_bad_places(*app.document, list);
    }
    return {list, std::move(places)};
}

/// A file that was written anew is read again, once for each change; what cannot be read leaves the view.
void reload_changed(App& app) {
    const std::uint64_t before = std::exchange(app.seen_changes, app.status.settled_changes);
    if (before != app.seen_changes) app.session.reload();
}

void take_aim(App& app) {
    if (!app.aim) return;
    auto [list, place] = *app.aim;
    if (listed_of(app.problem(), list) == Listed::ranges) {
        const WorstRow worst = worst_row(app.session, *app.document, list, place);
        if (!worst.complete) {
            app.waits = true;
            return;
        }
        list.listed = Listed::rows;
        place.row = worst.row;
    }
    const FirstBad found = first_bad_element(app.session, *app.document, list, place);
    if (!found.complete) {
        app.waits = true;
        return;
    }
    app.aim.reset();
    if (!found.element) return;
    const PlanePoint point{found.element->row, found.element->col};
    go_to(app, list.stage, cursor_at(app.problem(), app.view.cursor, found.element->plane, point), true);
}

std::string absolute_path(const std::string& path) {
    std::error_code ignored;
    const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
    return absolute.empty() ? path : absolute.string();
}

bool is_folder(const std::string& path) {
    std::error_code unknown;
    return std::filesystem::is_directory(path, unknown);
}

void place_new_document(App& app) {
    const Document& document = *app.document;
    app.shown_generation = document.generation;
    app.view.cause = 0;
    app.hovered.reset();
    app.aim.reset();
    app.view.region.reset();
    app.npy.reset();
    const bool same_call = app.shown_problem && *app.shown_problem == app.problem();
    app.shown_problem = app.problem();
    app.placed_by_report = false;
    const std::pair files(document.path, document.other);
    if (same_call && app.shown_files == files) return;
    app.shown_files = files;
    app.view.cursor = {};
    std::vector<Stage> choice(first_choice.begin(), first_choice.end());
    for (int i = 0; i < max_named_tiles; ++i) choice.push_back(named_tile(i));
    const auto stage = std::ranges::find_if(choice, [&](Stage captured) { return app.has(captured); });
    if (stage != choice.end()) app.view.stage = app.bad.list.stage = *stage;
    app.view.ranges.fit(app.problem());
    if (!part_on_screen(app)) remember_opened(app, document.path, document.other);
    if (app.goto_text.empty()) return;
    if (!go_to_text(app, std::exchange(app.goto_text, {}))) app.goto_refused = app.notice;
}

}  // namespace

std::string_view to_string(Layout layout) {
    return layout_names[std::size_t(layout)].name;
}

std::string_view to_string(Tab tab) {
    return tab_names[std::size_t(tab)].name;
}

void open_paths(App& app, const std::vector<std::string>& paths) {
    if (paths.empty()) return;
    if (paths.size() > 2) {
        app.notice = fmt::format("{} files were given; one is judged, two are compared", paths.size());
        return;
    }
    app.notice.clear();
    if (std::ranges::none_of(paths, is_folder)) {
        show_recording_once_open(app, paths[0]);
        app.session.open(paths[0], paths.size() > 1 ? paths[1] : "");
    } else if (paths.size() == 1) {
        open_folder(app, paths[0]);
    } else {
        app.notice = "a folder is shown by itself; two recordings are compared";
    }
}

void remember_opened(App& app, const std::string& path, const std::string& other) {
    // The next run may begin in another folder.
    std::string entry = absolute_path(path);
    if (!other.empty()) entry += "\n" + absolute_path(other);
    remember_recent(app.settings, entry);
}

void go_to(App& app, Stage stage, const Cursor& cursor, bool keep_ranges) {
    app.placed_by_report = true;
    app.pointer_leads = false;
    app.aim.reset();
    app.view.stage = stage;
    app.view.cursor = cursor;
    app.view.region.reset();
    if (keep_ranges) {
        app.view.ranges.show(app.problem(), cursor, stage);
    } else {
        app.view.ranges.centre_on(app.problem(), cursor);
    }
}

bool go_to_first_divergence(App& app) {
    const Report* report = app.document->report.get();
    if (report == nullptr || !report->guilty || !report->first_divergence) return false;
    go_to(app, *report->guilty, cursor_at(app.problem(), *report->guilty, *report->first_divergence), false);
    app.bad.list.stage = *report->guilty;
    return true;
}

bool go_to_text(App& app, const std::string& text) {
    if (app.shows_declared()) return go_to_declared_text(app, text);
    try {
        const Target target = target_from(*app.document->recording, text);
        go_to(app, target.stage, target.cursor, false);
        app.bad.list.stage = target.stage;
        app.notice.clear();
        return true;
    } catch (const std::exception& error) {
        app.notice = one_line(error.what());
        return false;
    }
}

void select_stage(App& app, Stage stage) {
    if (!app.has(stage)) {
        app.notice = fmt::format("{} was not captured", stage_info(app.problem(), stage).name);
        return;
    }
    app.placed_by_report = true;
    app.pointer_leads = false;
    app.view.stage = stage;
    app.view.region.reset();
    app.bad.list.stage = stage;
    app.view.ranges.show(app.problem(), app.view.cursor, stage);
}

void choose_reference(App& app, Reference against) {
    if (app.shows_recording() && app.document->pair()) {
        app.notice = "two recordings: there is no end to end";
        return;
    }
    app.view.against = app.bad.list.against = against;
}

void update_bad_table(App& app) {
    BadTable& bad = app.bad;
    if (std::exchange(bad.followed, app.view.stage) != app.view.stage) bad.list.stage = app.view.stage;
    const bool has_report = app.document->report != nullptr;
    // The map changes all the time while it is filled; the report ends that.
    const std::uint64_t map_version = has_report ? app.document->map_of(bad.list.against).version() : 0;
    const bool same = bad.generation == app.document->generation && bad.map_version == map_version &&
                      bad.had_report == has_report && bad.found == bad.list;
    if (same && bad.complete) return;
    bad.generation = app.document->generation;
    bad.map_version = map_version;
    bad.had_report = has_report;
    bad.found = bad.list;
    RowKinds rows;
    if (has_report) rows = keep_rows_of_kind(app.session, *app.document, bad.list);
    bad.by_tile = rows.by_tile;
    bad.complete = rows.complete;
    bad.rows = std::move(rows.places);
    bad.places = bad.rows;
    if (listed_of(app.problem(), bad.list) == Listed::ranges) {
        bad.places = join_rows(*app.document, bad.list, bad.rows);
        const bool refined = refine_ranges(app.session, *app.document, bad.list, bad.places);
        bad.complete = bad.complete && refined;
    }
    if (!bad.complete) app.waits = true;
    const BadSort& sort = bad.sort(app.problem());
    sort_bad_places(bad.places, sort.column, sort.descending);
}

void go_to_bad(App& app, const BadList& list, const BadPlace& place) {
    Cursor cursor = app.view.cursor;
    cursor.batch = place.batch;
    cursor.head = query_head_in(app.problem(), list.stage, place.head, cursor.head);
    const bool keys = row_axis_of(app.problem(), list.stage) == ViewAxis::key;
    (keys ? cursor.key : cursor.row) = place.row;
    if (listed_of(app.problem(), list) == Listed::tiles) {
        cursor.key = place.kv_tile * app.problem().block_n;
        if (keys) cursor.row = place.q_block * app.problem().block_m;
    }
    go_to(app, list.stage, cursor, true);
    app.aim = {list, place};
}

void walk_bad(App& app, bool tiles, int step) {
    const auto [list, places] = places_to_walk(app, tiles);
    if (places.empty()) {
        app.notice = tiles ? "no tile diverges" : "no row diverges";
        return;
    }
    const auto here = order_of(place_of_cursor(app, list.stage, tiles), tiles);
    const auto order = [&](const BadPlace& place) { return order_of(place, tiles); };
    std::size_t index = 0;
    if (step > 0) {
        index = std::size_t(std::ranges::upper_bound(places, here, {}, order) - places.begin());
        if (index == places.size()) index = 0;
    } else {
        index = std::size_t(std::ranges::lower_bound(places, here, {}, order) - places.begin());
        index = (index == 0 ? places.size() : index) - 1;
    }
    go_to_bad(app, list, places[index]);
    app.notice = fmt::format("bad {} {} of {} in {}", tiles ? "tile" : "row", index + 1, places.size(),
                             stage_info(app.problem(), list.stage).name);
}

void walk_bad_heads(App& app, int step) {
    const auto [list, places] = places_to_walk(app, true);
    if (places.empty()) {
        app.notice = "no head diverges";
        return;
    }
    const auto head_of = [](const BadPlace& place) { return std::pair(place.batch, place.head); };
    const std::pair here(app.view.cursor.batch, head_in(app.problem(), list.stage, app.view.cursor.head));
    const BadPlace* found = nullptr;
    if (step > 0) {
        const auto next = std::ranges::upper_bound(places, here, {}, head_of);
        found = next == places.end() ? &places.front() : &*next;
    } else {
        const auto next = std::ranges::lower_bound(places, here, {}, head_of);
        const auto last = head_of(next == places.begin() ? places.back() : *(next - 1));
        found = &*std::ranges::lower_bound(places, last, {}, head_of);
    }
    go_to_bad(app, list, *found);
    app.notice = fmt::format("batch {}, head {}", found->batch, found->head);
}

ElementPlace selected_element(const App& app) {
    const PlanePoint point = point_at(app.problem(), app.view.cursor, app.view.stage);
    return element_at(app.problem(), plane_at(app.problem(), app.view.cursor, app.view.stage), point.row,
                      point.col);
}

std::string coordinates_of(const Problem& problem, const ElementPlace& place) {
    const StageInfo info = stage_info(problem, place.stage);
    const auto walks = [&](Axis axis) { return info.row_axis == axis || info.col_axis == axis; };
    std::string text =
        fmt::format("{},{},{},{},{}", info.name, place.tile.batch, place.tile.head, place.row, place.col);
    if (info.per_kv_tile && !walks(Axis::key)) text += fmt::format(",{}", place.tile.kv_tile);
    if (info.per_q_block && !walks(Axis::query)) text += fmt::format(",{}", place.tile.q_block);
    return text;
}

std::string tile_diff_command(const App& app) {
    if (app.ranks.shown) return fmt::format("tile-diff {}", shell_word(app.ranks.run->folder));
    if (app.shows_recording() && app.document->pair())
        return fmt::format("tile-diff --against {} {}", shell_word(app.document->other),
                           shell_word(app.document->path));
    return fmt::format("tile-diff {} --explain-tolerance {}", shell_word(shown_document(app).path),
                       selected_element_text(app));
}

std::string tile_view_command(const App& app) {
    if (app.ranks.shown)
        return fmt::format("tile-view {} --goto {}", shell_word(app.ranks.run->folder),
                           coordinates_of(*app.ranks.run, app.ranks.cell));
    if (app.shows_declared())
        return fmt::format("tile-view {} --goto {}", shell_word(app.declared.document->path),
                           declared_coordinates(app, index_shown(app)));
    std::string place = coordinates_of(app.problem(), selected_element(app));
    place[place.find(',')] = ':';
    std::string files = shell_word(app.document->path);
    if (app.document->pair()) files += " " + shell_word(app.document->other);
    return fmt::format("tile-view {} --goto {}", files, place);
}

bool is_shown(const App& app, Tab tab) {
    if (app.shows_declared()) return std::ranges::find(declared_tabs, tab) != declared_tabs.end();
    switch (tab) {
        case Tab::drift:
        case Tab::budget:
        case Tab::causes:
            return app.document == nullptr || !app.document->pair();
        case Tab::history:
            return app.history.in_tab;
        case Tab::map:
        case Tab::bad_rows:
            return app.narrow;
        default:
            return true;
    }
}

void next_tab(App& app) {
    do app.view.tab = Tab((int(app.view.tab) + 1) % tab_count);
    while (!is_shown(app, app.view.tab));
}

std::string name_of(const std::string& path) {
    const std::filesystem::path of(absolute_path(path));
    // Of a folder with a slash at its end.
    return one_line((of.has_filename() ? of : of.parent_path()).filename().string());
}

namespace {

std::string title_of_run(const RunDocument& run) {
    std::string title = name_of(run.folder);
    if (run.report != nullptr) {
        const std::string verdict = verdict_line(*run.report);
        title += ": " + verdict.substr(0, verdict.find(", batch"));
    }
    return title + " - tile-view";
}

/// With the stage that is wrong: its formula is too long.
std::string title_of_declared(const Document& document) {
    const std::string verdict = verdict_line(document.declared->program(), document.declared->report());
    return fmt::format("{}: {} - tile-view", name_of(document.path),
                       verdict.substr(0, verdict.find(", declared as")));
}

}  // namespace

std::string window_title(const App& app) {
    if (app.ranks.shown) return title_of_run(*app.ranks.run);
    if (app.shows_declared()) return title_of_declared(*app.declared.document);
    if (app.document == nullptr) return "tile-view";
    std::string title = name_of(app.document->path);
    if (app.document->pair()) title += " against " + name_of(app.document->other);
    const Report* report = app.document->report.get();
    if (report != nullptr) {
        const std::string verdict = verdict_line(*report);
        title += ": " + verdict.substr(0, verdict.find(", at batch"));
    }
    return title + " - tile-view";
}

void follow_document(App& app) {
    app.waits = false;
    app.map_is_behind = false;
    follow_run(app);
    reload_changed(app);
    if (app.shows_declared()) follow_declared(app);
    if (!app.shows_recording()) return;
    if (app.document->generation != app.shown_generation) place_new_document(app);
    if (!app.placed_by_report && app.document->report != nullptr) {
        app.placed_by_report = true;
        // Nobody chose the place before.
        if (go_to_wrong_of_run(app) || go_to_first_divergence(app)) app.visits.places.clear();
    }
    update_bad_table(app);
    take_aim(app);
    // What is still sought is no place yet.
    if (!app.aim) note_visit(app);
}

}  // namespace tilescope::viewer
