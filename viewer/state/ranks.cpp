#include "viewer/state/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "oracle/ranks/run_of_ranks.h"
#include "oracle/ranks/step_in_run.h"
#include "viewer/state/app.h"

namespace tilescope::viewer {

namespace {

bool is_part(const RunDocument& run, const std::string& path) {
    return std::ranges::find(run.paths, path) != run.paths.end();
}

/// What is said at the bottom: of the level on screen first, then of the other one.
Status both(const Status& first, const Status& then) {
    Status status = first;
    if (status.message.empty()) {
        status.message = then.message;
        status.progress = then.progress;
    }
    if (status.error.empty()) status.error = then.error;
    status.idle = first.idle && then.idle;
    status.settled_changes = std::max(first.settled_changes, then.settled_changes);
    return status;
}

/// A step with its operands as they arrived. What a rank has at the end is judged from all the others, and not by itself.
void open_part(App& app, std::size_t part) {
    const RunDocument& run = *app.ranks.run;
    if (run.shards[part].kind == ShardKind::step)
        app.session.open_part(run.paths[part], std::make_shared<const StepInRun>(run.run, part));
    else
        app.notice =
            fmt::format("{} are outputs alone, which are judged here; open a step to see what went into them",
                        text_of_part(run.shards[part]));
}

/// A run that was not on screen before.
void show_run(App& app) {
    RanksView& ranks = app.ranks;
    ranks.generation = ranks.run->generation;
    const RankGrid& grid = ranks.run->grid;
    ranks.cell.rank = std::clamp<std::int64_t>(ranks.cell.rank, 0, grid.ranks() - 1);
    ranks.cell.column =
        std::clamp<std::int64_t>(ranks.cell.column, 0, std::max<std::int64_t>(grid.columns() - 1, 0));
    if (ranks.asked.empty()) {
        // It was read again, and so is what is on screen of it.
        const std::optional<std::size_t> part =
            app.document != nullptr && app.document->of_run ? part_on_screen(app) : std::nullopt;
        if (part) open_part(app, *part);
        return;
    }
    ranks.asked.clear();
    ranks.shown = true;
    ranks.chosen = false;
    ranks.cell = {};
    ranks.entering.clear();
    remember_opened(app, ranks.run->folder);
    if (app.goto_text.empty()) return;
    if (!go_to_cell(app, std::exchange(app.goto_text, {}))) app.goto_refused = app.notice;
}

/// A recording that was opened is there.
void show_recording(App& app, const std::string& path) {
    RanksView& ranks = app.ranks;
    ranks.entering.clear();
    ranks.shown = false;
    if (ranks.run == nullptr || is_part(*ranks.run, path)) return;
    app.run_session.close();
    ranks.run = nullptr;
}

bool number_in(std::string_view text, std::int64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

/// Nullopt where the run has no such rank or step.
std::optional<RankCell> cell_in(const RunDocument& run, std::string_view text) {
    const std::size_t comma = text.find(',');
    RankCell cell;
    if (comma == std::string_view::npos || !number_in(text.substr(0, comma), cell.rank)) return std::nullopt;
    if (cell.rank < 0 || cell.rank >= run.ranks) return std::nullopt;
    const std::string_view column = text.substr(comma + 1);
    if (column == "end") {
        cell.column = run.grid.columns() - 1;
        return run.grid.has_final() ? std::optional(cell) : std::nullopt;
    }
    std::int64_t step = 0;
    if (!number_in(column, step)) return std::nullopt;
    const auto found = std::ranges::find(run.grid.steps(), step);
    if (found == run.grid.steps().end()) return std::nullopt;
    cell.column = found - run.grid.steps().begin();
    return cell;
}

}  // namespace

void follow_run(App& app) {
    RanksView& ranks = app.ranks;
    ranks.run = app.run_session.document();
    const std::string alone = app.run_session.take_alone();
    if (!alone.empty()) open_paths(app, {alone});
    const Status of_run = app.run_session.status();
    const Status of_recording = app.session.status();
    if (!of_run.error.empty()) ranks.asked.clear();
    if (!of_recording.error.empty()) ranks.entering.clear();
    const std::shared_ptr<const Document> opened = app.session.document();
    const bool is_declared = opened != nullptr && opened->declared != nullptr;
    app.document = is_declared ? nullptr : opened;
    app.declared.document = is_declared ? opened : nullptr;
    if (ranks.run != nullptr && ranks.run->generation != ranks.generation) show_run(app);
    const bool is_there =
        opened != nullptr && opened->path == ranks.entering && opened->generation != ranks.left;
    if (is_there && !ranks.entering.empty()) show_recording(app, opened->path);
    app.status = ranks.shown ? both(of_run, of_recording) : both(of_recording, of_run);
    if (ranks.run == nullptr || ranks.run->report == nullptr || ranks.placed == ranks.generation) return;
    ranks.placed = ranks.generation;
    if (!ranks.chosen && choose_first_wrong(app)) ranks.chosen = false;
}

void open_folder(App& app, const std::string& folder) {
    app.ranks.asked = folder;
    app.run_session.open(folder);
}

void show_recording_once_open(App& app, const std::string& path) {
    app.ranks.entering = path;
    const std::shared_ptr<const Document> opened = app.session.document();
    app.ranks.left = opened != nullptr ? opened->generation : 0;
}

std::optional<std::size_t> part_at(const App& app, const RankCell& cell) {
    if (app.ranks.run == nullptr) return std::nullopt;
    return app.ranks.run->grid.part_at(cell.rank, cell.column);
}

std::optional<std::size_t> chosen_part(const App& app) {
    return part_at(app, app.ranks.cell);
}

std::optional<std::size_t> part_on_screen(const App& app) {
    if (app.ranks.run == nullptr || app.document == nullptr || app.document->pair()) return std::nullopt;
    const auto& paths = app.ranks.run->paths;
    const auto found = std::ranges::find(paths, app.document->path);
    return found == paths.end() ? std::nullopt : std::optional(std::size_t(found - paths.begin()));
}

const RankFault* fault_of(const RankReport& report, std::size_t part) {
    const auto found = std::ranges::find(report.faults, part, &RankFault::part);
    return found == report.faults.end() ? nullptr : &*found;
}

void enter_recording(App& app) {
    const std::optional<std::size_t> part = chosen_part(app);
    if (!part) {
        app.notice = "there is no recording of this rank and step";
        return;
    }
    const std::string& path = app.ranks.run->paths[*part];
    const bool is_open = app.document != nullptr && app.document->path == path && !app.document->pair();
    app.notice.clear();
    if (is_open) {
        app.ranks.shown = false;
        return;
    }
    if (app.ranks.run->shards[*part].kind == ShardKind::step) show_recording_once_open(app, path);
    open_part(app, *part);
}

bool leave_recording(App& app) {
    if (app.ranks.run == nullptr || app.ranks.shown) return false;
    app.ranks.shown = true;
    app.ranks.entering.clear();
    app.notice.clear();
    if (const auto part = part_on_screen(app)) choose_part(app, *part);
    return true;
}

void go_up(App& app) {
    if (leave_recording(app)) return;
    if (!app.problem().shard.is_part() || app.document->pair()) {
        app.notice = "this recording is of no run of several ranks";
        return;
    }
    const std::filesystem::path folder = std::filesystem::path(app.document->path).parent_path();
    open_paths(app, {folder.empty() ? "." : folder.string()});
}

void choose_cell(App& app, const RankCell& cell) {
    app.ranks.cell = cell;
    app.ranks.chosen = true;
    app.pointer_leads = false;
}

void choose_part(App& app, std::size_t part) {
    const RunDocument& run = *app.ranks.run;
    if (const auto column = run.grid.column_of(run.shards[part]))
        choose_cell(app, {run.shards[part].rank, *column});
}

void move_cell(App& app, std::int64_t ranks, std::int64_t columns) {
    const RankGrid& grid = app.ranks.run->grid;
    const RankCell& from = app.ranks.cell;
    choose_cell(app, {std::clamp<std::int64_t>(from.rank + ranks, 0, grid.ranks() - 1),
                      std::clamp<std::int64_t>(from.column + columns, 0, grid.columns() - 1)});
}

bool choose_first_wrong(App& app) {
    const RankReport* report = app.ranks.run->report.get();
    if (report == nullptr || report->faults.empty()) return false;
    choose_part(app, report->faults.front().part);
    return true;
}

void walk_wrong_cells(App& app, int step) {
    const RunDocument& run = *app.ranks.run;
    if (run.report == nullptr || run.report->faults.empty()) {
        app.notice = run.report == nullptr ? "not judged yet" : "nothing diverges";
        return;
    }
    std::vector<std::size_t> wrong;
    for (const RankFault& fault : run.report->faults)
        if (std::ranges::find(wrong, fault.part) == wrong.end()) wrong.push_back(fault.part);
    const auto here = chosen_part(app);
    const auto found = here ? std::ranges::find(wrong, *here) : wrong.end();
    std::size_t index = std::size_t(found - wrong.begin());
    if (found == wrong.end())
        index = step > 0 ? 0 : wrong.size() - 1;
    else
        index = (index + wrong.size() + std::size_t(std::ptrdiff_t(step))) % wrong.size();
    choose_part(app, wrong[index]);
    app.notice = fmt::format("wrong recording {} of {}", index + 1, wrong.size());
}

std::string coordinates_of(const RunDocument& run, const RankCell& cell) {
    const auto steps = run.grid.steps();
    if (cell.column >= std::int64_t(steps.size())) return fmt::format("{},end", cell.rank);
    return fmt::format("{},{}", cell.rank, steps[std::size_t(cell.column)]);
}

bool go_to_cell(App& app, const std::string& text) {
    const std::optional<RankCell> cell = cell_in(*app.ranks.run, text);
    if (!cell) {
        app.notice = fmt::format("{}: {} is no rank and step of it; give RANK,STEP or RANK,end",
                                 app.ranks.run->folder, text);
        return false;
    }
    choose_cell(app, *cell);
    return true;
}

bool go_to_wrong_of_run(App& app) {
    const std::optional<std::size_t> part = part_on_screen(app);
    const RankReport* report = part ? app.ranks.run->report.get() : nullptr;
    const RankFault* fault = report != nullptr ? fault_of(*report, *part) : nullptr;
    if (fault == nullptr) return false;
    const std::vector<PartStage>& stages = report->parts[*part].stages;
    const auto judged = std::ranges::find(stages, fault->stage, &PartStage::name);
    if (judged == stages.end() || !judged->tally.first) return false;
    for (const StageInfo& info : stages_of(app.problem())) {
        if (info.name != fault->stage || !app.has(info.stage)) continue;
        Element element = *judged->tally.first;
        // Of k and v that arrived it counts KV heads.
        if (judged->arrived && info.stage != Stage::q)
            element.tile.head = heads_reading(app.problem(), element.tile.head).first;
        go_to(app, info.stage, cursor_at(app.problem(), info.stage, element), false);
        app.bad.list.stage = info.stage;
        return true;
    }
    return false;
}

}  // namespace tilescope::viewer
