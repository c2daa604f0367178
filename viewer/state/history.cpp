#include "viewer/state/history.h"

#include <fmt/format.h>

#include <algorithm>

#include "oracle/judge/report.h"
#include "viewer/state/app.h"

namespace tilescope::viewer {

namespace {

/// Of the element at the cursor: that of its q row and column; of dk and dv that of its key.
HistoryPlace place_of_cursor(const App& app) {
    const Cursor& cursor = app.view.cursor;
    const Problem& problem = app.problem();
    const Stage stage = app.view.stage;
    HistoryPlace place{.batch = cursor.batch, .head = cursor.head, .key = {}};
    place.of_key = stage == Stage::dk || stage == Stage::dv;
    place.line = place.of_key ? cursor.key : cursor.row;
    const bool as_wide_as_v = problem.direction == Direction::forward || stage == Stage::dv;
    const std::int64_t columns = as_wide_as_v ? problem.head_dim_v : problem.head_dim;
    place.feature = std::min(cursor.feature, columns - 1);
    const bool of_scores = stage_info(problem, stage).row_axis == Axis::query &&
                           stage_info(problem, stage).col_axis == Axis::key && !is_named(stage);
    if (of_scores) place.key = cursor.key;
    return place;
}

HistoryPlace place_to_show(const App& app) {
    const auto& walk = app.history.walk;
    const bool walks = walk && walk->cursor == app.view.cursor && walk->stage == app.view.stage;
    return walks ? walk->place : place_of_cursor(app);
}

bool holds_cursor(const App& app, const HistoryMoment& moment, bool of_key) {
    const Cursor& cursor = app.view.cursor;
    const Problem& problem = app.problem();
    if (moment.kind != HistoryMoment::Kind::tile) return false;
    return of_key ? moment.tile.head == cursor.head && moment.tile.q_block == cursor.row / problem.block_m
                  : moment.tile.kv_tile == cursor.key / problem.block_n;
}

std::optional<std::size_t> step_of(const HistoryMoment& moment, Stage stage) {
    const auto found = std::ranges::find(moment.steps, stage, &HistoryStep::stage);
    if (found == moment.steps.end()) return std::nullopt;
    return std::size_t(found - moment.steps.begin());
}

bool is_there(const HistoryStep& step) {
    return step.state != StepState::not_recorded;
}

}  // namespace

std::shared_ptr<const PixelHistory> ask_history(App& app) {
    HistoryView& view = app.history;
    if (view.generation != app.document->generation) {
        view.generation = app.document->generation;
        view.shown = nullptr;
        view.walk.reset();
    }
    // Of a file that was written over no more is read.
    if (auto history = app.session.request_history(place_to_show(app)))
        view.shown = std::move(history);
    else if (!app.status.written_over)
        app.waits = true;
    return view.shown;
}

HistoryCursor cursor_in(const App& app, const PixelHistory& history) {
    HistoryCursor cursor;
    for (std::size_t i = 0; i < history.moments.size(); ++i) {
        const HistoryMoment& moment = history.moments[i];
        const bool here = holds_cursor(app, moment, history.place.of_key);
        const auto step = step_of(moment, app.view.stage);
        if (here) cursor = {i, step};
        if (step && moment.kind != HistoryMoment::Kind::tile) return {i, step};
    }
    return cursor;
}

std::vector<Stage> undeclared_stages(const App& app) {
    std::vector<Stage> stages;
    const Report* report = app.document->report.get();
    for (const StageInfo& info : stages_of(app.problem())) {
        if (report != nullptr && !report->stage(info.stage).undeclared.empty()) stages.push_back(info.stage);
    }
    return stages;
}

void go_to_step(App& app, const PixelHistory& history, PixelHistory::Index index) {
    const HistoryMoment& moment = history.moments[index.moment];
    const HistoryStep& step = moment.steps[index.step];
    const Problem& problem = app.problem();
    Cursor cursor = app.view.cursor;
    if (moment.kind == HistoryMoment::Kind::tile) {
        cursor.head = moment.tile.head;
        if (cursor.key / problem.block_n != moment.tile.kv_tile)
            cursor.key = moment.tile.kv_tile * problem.block_n;
        if (cursor.row / problem.block_m != moment.tile.q_block)
            cursor.row = moment.tile.q_block * problem.block_m;
    }
    if (step.element) {
        const PlaceInPlane place = place_in_plane(problem, step.stage, *step.element);
        cursor = cursor_at(problem, cursor, place.plane, {place.row, place.col});
    }
    const Stage stage = app.has(step.stage) ? step.stage : app.view.stage;
    go_to(app, stage, cursor, true);
    app.bad.list.stage = stage;
    app.history.walk = {history.place, stage, cursor};
}

void go_to_moment(App& app, const PixelHistory& history, std::size_t moment) {
    const HistoryMoment& to = history.moments[moment];
    const std::size_t last = to.kind == HistoryMoment::Kind::tile ? to.steps.size() - 1 : 0;
    go_to_step(app, history, {moment, step_of(to, app.view.stage).value_or(last)});
}

void walk_history(App& app, int moments, int steps) {
    const auto history = app.history.shown;
    if (history == nullptr || history->moments.empty()) return;
    const HistoryCursor at = cursor_in(app, *history);
    if (moments != 0) {
        const auto to = std::ptrdiff_t(at.moment) + moments;
        if (to >= 0 && to < std::ssize(history->moments)) go_to_moment(app, *history, std::size_t(to));
        return;
    }
    const auto& all = history->moments[at.moment].steps;
    for (auto i = std::ptrdiff_t(at.step.value_or(all.size())) + steps; i >= 0 && i < std::ssize(all);
         i += steps) {
        if (is_there(all[std::size_t(i)])) return go_to_step(app, *history, {at.moment, std::size_t(i)});
    }
}

bool history_is_shown(const App& app) {
    return app.document != nullptr &&
           (app.history.in_tab ? app.view.tab == Tab::history : app.settings.history);
}

bool history_takes_arrows(const App& app) {
    return app.history.focused && history_is_shown(app);
}

void toggle_history(App& app) {
    if (app.shows_declared()) {
        app.settings.history = !app.settings.history;
        return;
    }
    const bool shows = !history_is_shown(app);
    if (app.history.in_tab)
        app.view.tab = shows ? Tab::history : Tab::row;
    else
        app.settings.history = shows;
    app.history.focused = shows;
}

std::string title_of(const PixelHistory& history, const App& app) {
    const HistoryPlace& place = history.place;
    const bool forward = app.problem().direction == Direction::forward;
    const std::int64_t head = place.of_key ? head_in(app.problem(), Stage::dk, place.head) : place.head;
    return fmt::format("{}[{},{},{},{}]",
                       place.of_key ? "dk, dv"
                       : forward    ? "o"
                                    : "dq",
                       place.batch, head, place.line, place.feature);
}

}  // namespace tilescope::viewer
