#include "viewer/state/declared.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "dump/schema/error.h"
#include "viewer/state/app.h"
#include "viewer/state/selection.h"

namespace tilescope::viewer {

namespace {

/// A sheet is shown whole up to so many rows and columns.
constexpr double most_whole = 256;

std::int64_t wrapped(std::int64_t value, std::int64_t count) {
    return (value % count + count) % count;
}

std::size_t range_of(const DeclaredView& view, const StageDim& dim) {
    return std::size_t(dim.axis) + (dim.blocks ? view.at.size() : 0);
}

AxisExtent extent_of(const StageDim& dim) {
    return {double(dim.extent), double(dim.extent)};
}

/// The dimensions of the stage that a sheet shows, by their places in DeclaredView::ranges.
template <class Use>
void for_shown_dims(App& app, const Use& use) {
    const std::vector<StageDim> dims = dims_shown(app);
    const Sheet sheet = sheet_shown(app);
    const PlanePoint point = point_in_sheet(app);
    DeclaredView& view = app.declared;
    if (sheet.rows >= 0) {
        const StageDim& dim = dims[std::size_t(sheet.rows)];
        use(view.ranges[range_of(view, dim)], dim, point.row, true);
    }
    if (sheet.cols >= 0) {
        const StageDim& dim = dims[std::size_t(sheet.cols)];
        use(view.ranges[range_of(view, dim)], dim, point.col, false);
    }
}

void set_along(DeclaredView& view, const StageDim& dim, std::int64_t index) {
    const std::int64_t block = view.kernel().call().blocks[std::size_t(dim.axis)];
    std::int64_t& at = view.at[std::size_t(dim.axis)];
    if (!dim.blocks)
        at = index;
    else if (at / block != index)
        at = index * block;
}

std::int64_t index_along(const DeclaredView& view, const StageDim& dim) {
    const std::int64_t at = view.at[std::size_t(dim.axis)];
    return dim.blocks ? at / view.kernel().call().blocks[std::size_t(dim.axis)] : at;
}

/// Index along the dimensions of its stage.
std::vector<std::int64_t> index_of(const ProgramElement& element) {
    std::vector<std::int64_t> index = element.index;
    if (element.block >= 0) index.insert(index.begin(), element.block);
    return index;
}

/// The last state is what later stages take.
void begin_at_last_blocks(DeclaredView& view) {
    const ProgramCall& call = view.kernel().call();
    for (const ProgramArray& array : view.kernel().program().arrays)
        if (array.over >= 0)
            view.at[std::size_t(array.over)] = call.last_block(array) * call.blocks[std::size_t(array.over)];
}

void show_new_kernel(App& app) {
    DeclaredView& view = app.declared;
    const Document& document = *view.document;
    const ProgramCall& call = view.kernel().call();
    view.generation = document.generation;
    view.hovered.reset();
    app.view.region.reset();
    app.npy.reset();
    const std::string shown =
        fmt::format("{}\n{}\n{}", document.path, view.kernel().recording.text, fmt::join(call.extents, " "));
    if (view.shown != shown) {
        view.shown = shown;
        view.at.assign(call.extents.size(), 0);
        view.ranges.assign(2 * view.at.size(), {});
        const std::vector<int> stages = stages_of(call.program);
        const auto is_stored = [&](int stage) {
            return state_of(view.kernel(), stage) != DeclaredState::not_stored;
        };
        view.stage = *std::ranges::find_if(stages, is_stored);
        begin_at_last_blocks(view);
        fit_sheet(app);
        remember_opened(app, document.path);
    }
    go_to_first_wrong(app);
    if (app.goto_text.empty()) return;
    if (!go_to_declared_text(app, std::exchange(app.goto_text, {}))) app.goto_refused = app.notice;
}

std::string names_of_stages(const Program& program) {
    std::string names;
    for (const int stage : stages_of(program))
        names += (names.empty() ? "" : ", ") + program.array(stage).name;
    return names;
}

/// Errors: Error where the program has no such element.
std::pair<int, std::vector<std::int64_t>> element_from(const DeclaredKernel& kernel,
                                                       const std::string& text) {
    const Program& program = kernel.program();
    const std::string where = "--goto " + text;
    const std::size_t colon = text.find(':');
    const int stage = program.array_named(text.substr(0, colon));
    if (stage < 0 || !program.array(stage).is_stage)
        throw Error("there is no such stage", where, "name one of " + names_of_stages(program));
    const std::vector<StageDim> dims = dims_of(kernel.call(), stage);
    std::vector<std::int64_t> index;
    std::string_view rest = colon == std::string::npos ? "" : std::string_view(text).substr(colon + 1);
    while (!rest.empty()) {
        std::int64_t number = -1;
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
        const bool ends = end == rest.data() + rest.size();
        if (error != std::errc() || (!ends && *end != ','))
            throw Error("it has no whole numbers", where, "write it as acc:37,51,1");
        index.push_back(number);
        rest.remove_prefix(std::size_t(end - rest.data()) + (ends ? 0 : 1));
    }
    // The block, which stands first among dimensions, is named last.
    const bool has_blocks = !dims.empty() && dims.front().blocks;
    if (has_blocks && index.size() == dims.size()) std::rotate(index.begin(), index.end() - 1, index.end());
    bool fits = index.size() == dims.size();
    for (std::size_t i = 0; fits && i < dims.size(); ++i) fits = index[i] >= 0 && index[i] < dims[i].extent;
    if (!fits) {
        std::string shape;
        for (const StageDim& dim : dims)
            if (!dim.blocks) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", dim.extent);
        throw Error(
            fmt::format("{} is [{}]{}", program.array(stage).name, shape,
                        has_blocks ? fmt::format(" after each of {} blocks", dims.front().extent) : ""),
            where, "give an index of each axis, and of a state the block");
    }
    return {stage, index};
}

}  // namespace

void follow_declared(App& app) {
    if (app.declared.document != nullptr && app.declared.document->generation != app.declared.generation)
        show_new_kernel(app);
}

std::vector<int> stages_of(const Program& program) {
    std::vector<int> stages;
    for (int i = 0; i < int(program.arrays.size()); ++i)
        if (program.array(i).is_stage) stages.push_back(i);
    return stages;
}

DeclaredState state_of(const DeclaredKernel& kernel, int stage) {
    const std::vector<StageVerdict>& verdicts = kernel.report().stages;
    const auto verdict = std::ranges::find(verdicts, stage, &StageVerdict::stage);
    if (verdict == verdicts.end()) return DeclaredState::not_stored;
    switch (tilescope::state_of(kernel.report(), *verdict)) {
        case ProgramStageState::ok:
            return DeclaredState::right;
        case ProgramStageState::not_judged:
            return DeclaredState::not_judged;
        case ProgramStageState::inherited:
            return DeclaredState::inherited;
        case ProgramStageState::wrong:
            return DeclaredState::wrong_too;
        default:
            return DeclaredState::first_wrong;
    }
}

std::vector<int> wrong_before(const DeclaredKernel& kernel, int stage) {
    const Program& program = kernel.program();
    std::vector<int> wrong;
    // Without what was stored all of them are.
    for (const int before : computed_for(program, nullptr, stage))
        if (before != stage && state_of(kernel, before) >= DeclaredState::wrong_too) wrong.push_back(before);
    return wrong;
}

std::vector<StageDim> dims_shown(const App& app) {
    return dims_of(app.declared.kernel().call(), app.declared.stage);
}

std::vector<std::int64_t> index_shown(const App& app) {
    std::vector<std::int64_t> index;
    for (const StageDim& dim : dims_shown(app)) index.push_back(index_along(app.declared, dim));
    return index;
}

Sheet sheet_shown(const App& app) {
    return sheet_at(dims_shown(app), index_shown(app));
}

PlaneShape shape_of_sheet(const App& app) {
    const std::vector<StageDim> dims = dims_shown(app);
    const Sheet sheet = sheet_shown(app);
    const auto block = [&](int dim) {
        const bool cut = dim >= 0 && !dims[std::size_t(dim)].blocks;
        return cut ? app.declared.kernel().call().blocks[std::size_t(dims[std::size_t(dim)].axis)] : 1;
    };
    return {length_of(dims, sheet.rows), length_of(dims, sheet.cols), block(sheet.rows), block(sheet.cols)};
}

PlanePoint point_in_sheet(const App& app) {
    const std::vector<std::int64_t> index = index_shown(app);
    const Sheet sheet = sheet_shown(app);
    return {sheet.rows < 0 ? 0 : index[std::size_t(sheet.rows)],
            sheet.cols < 0 ? 0 : index[std::size_t(sheet.cols)]};
}

std::vector<std::int64_t> index_at(const App& app, const PlanePoint& point) {
    std::vector<std::int64_t> index = index_shown(app);
    const Sheet sheet = sheet_shown(app);
    if (sheet.rows >= 0) index[std::size_t(sheet.rows)] = point.row;
    if (sheet.cols >= 0) index[std::size_t(sheet.cols)] = point.col;
    return index;
}

PlaneView view_of_sheet(const App& app) {
    const DeclaredView& view = app.declared;
    const std::vector<StageDim> dims = dims_shown(app);
    const Sheet sheet = sheet_shown(app);
    const auto range = [&](int dim) {
        return dim < 0 ? AxisRange{} : view.ranges[range_of(view, dims[std::size_t(dim)])];
    };
    const AxisRange rows = range(sheet.rows);
    const AxisRange cols = range(sheet.cols);
    return {rows.first, cols.first, rows.size, cols.size};
}

Quantity quantity_of_sheet(const App& app) {
    if (state_of(app.declared.kernel(), app.declared.stage) == DeclaredState::not_stored)
        return against(app.view.against, Quantity::expected);
    const bool of_replay = quantity_info(app.view.quantity).against == Reference::replay;
    return against(app.view.against, of_replay ? Quantity::over_budget : app.view.quantity);
}

std::shared_ptr<const StageValues> ask_values(App& app, int stage) {
    auto values = app.session.request_values(app.declared.generation, {stage, app.view.against});
    if (values == nullptr) app.waits = true;
    return values == nullptr || values->refused.empty() ? values : nullptr;
}

std::shared_ptr<const Pyramid> ask_picture_of_sheet(App& app, Quantity quantity) {
    if (ask_values(app, app.declared.stage) == nullptr) return nullptr;
    auto picture = app.session.request_sheet(
        app.declared.generation, {{app.declared.stage, app.view.against}, sheet_shown(app), quantity});
    if (picture == nullptr) app.waits = true;
    return picture;
}

SheetPart selected_part(const App& app) {
    return {{app.declared.stage, app.view.against}, sheet_shown(app), selected_rect(app)};
}

std::string why_no_values(App& app, int stage) {
    const auto values = app.session.request_values(app.declared.generation, {stage, app.view.against});
    return values == nullptr ? "being judged" : values->refused;
}

void select_declared_stage(App& app, int stage) {
    app.declared.stage = stage;
    app.view.region.reset();
    app.pointer_leads = false;
    for_shown_dims(app, [](AxisRange& range, const StageDim& dim, std::int64_t at, bool) {
        reveal(range, double(at), extent_of(dim));
    });
}

void step_declared_stage(App& app, int step) {
    const std::vector<int> stages = stages_of(app.declared.kernel().program());
    const auto here = std::ranges::find(stages, app.declared.stage) - stages.begin();
    select_declared_stage(app, stages[std::size_t(wrapped(here + step, std::int64_t(stages.size())))]);
}

void go_to_declared(App& app, int stage, const std::vector<std::int64_t>& index, bool keep_ranges) {
    DeclaredView& view = app.declared;
    app.pointer_leads = false;
    app.view.region.reset();
    view.stage = stage;
    const std::vector<StageDim> dims = dims_shown(app);
    for (std::size_t i = 0; i < dims.size(); ++i) set_along(view, dims[i], index[i]);
    if (!keep_ranges) return centre_sheet(app);
    for_shown_dims(app, [](AxisRange& range, const StageDim& dim, std::int64_t at, bool) {
        reveal(range, double(at), extent_of(dim));
    });
}

void select_in_sheet(App& app, const PlanePoint& point) {
    const PlaneShape shape = shape_of_sheet(app);
    const PlanePoint inside{std::clamp<std::int64_t>(point.row, 0, shape.rows - 1),
                            std::clamp<std::int64_t>(point.col, 0, shape.cols - 1)};
    go_to_declared(app, app.declared.stage, index_at(app, inside), true);
}

void move_in_sheet(App& app, std::int64_t rows, std::int64_t cols) {
    const PlanePoint from = point_in_sheet(app);
    select_in_sheet(app, {from.row + rows, from.col + cols});
}

void move_by_blocks(App& app, std::int64_t rows, std::int64_t cols) {
    const PlaneShape shape = shape_of_sheet(app);
    move_in_sheet(app, rows * shape.tile_rows, cols * shape.tile_cols);
}

void step_dim(App& app, std::size_t dim, int step) {
    std::vector<std::int64_t> index = index_shown(app);
    index[dim] = wrapped(index[dim] + step, dims_shown(app)[dim].extent);
    go_to_declared(app, app.declared.stage, index, true);
}

void step_blocks(App& app, int step) {
    const std::vector<StageDim> dims = dims_shown(app);
    if (dims.empty() || !dims.front().blocks) {
        app.notice = fmt::format("{} carries no state from block to block", app.declared.array().name);
        return;
    }
    step_dim(app, 0, step);
}

void step_leading(App& app, int step) {
    const std::vector<StageDim> dims = dims_shown(app);
    const Sheet sheet = sheet_shown(app);
    std::vector<std::int64_t> index = index_shown(app);
    bool has_any = false;
    // The last of them goes first, as they lie in memory.
    for (int dim = int(dims.size()) - 1; dim >= 0 && step != 0; --dim) {
        const StageDim& along = dims[std::size_t(dim)];
        if (dim == sheet.rows || dim == sheet.cols || along.blocks) continue;
        has_any = true;
        std::int64_t& at = index[std::size_t(dim)];
        at += step;
        const bool carries = at < 0 || at >= along.extent;
        at = wrapped(at, along.extent);
        if (!carries) step = 0;
    }
    if (!has_any)
        app.notice = fmt::format("{} has no axis but those of its picture", app.declared.array().name);
    else
        go_to_declared(app, app.declared.stage, index, true);
}

bool go_to_first_wrong(App& app) {
    const ProgramReport& report = app.declared.kernel().report();
    if (report.first_wrong < 0) return false;
    go_to_declared(app, report.first_wrong, index_of(report.verdict_of(report.first_wrong).worst.front()),
                   false);
    return true;
}

void walk_worst(App& app, int step) {
    const auto values = ask_values(app, app.declared.stage);
    if (values == nullptr) return;
    const std::vector<std::int64_t>& worst = values->worst;
    if (worst.empty()) {
        app.notice = fmt::format("nothing of {} is outside", app.declared.array().name);
        return;
    }
    const auto here = std::ranges::find(worst, values->number_of(index_shown(app)));
    const auto count = std::int64_t(worst.size());
    const std::int64_t at = here == worst.end() ? (step > 0 ? -1 : 0) : here - worst.begin();
    const std::int64_t next = wrapped(at + step, count);
    go_to_declared(app, app.declared.stage, values->index_of(worst[std::size_t(next)]), true);
    app.notice = fmt::format("worst element {} of {} in {}", next + 1, count, app.declared.array().name);
}

void fit_sheet(App& app) {
    DeclaredView& view = app.declared;
    const ProgramCall& call = view.kernel().call();
    for (std::size_t axis = 0; axis < view.at.size(); ++axis) {
        view.ranges[axis] = {0, double(call.extents[axis])};
        view.ranges[axis + view.at.size()] = {0, double(call.blocks_of(int(axis)))};
    }
}

void centre_sheet(App& app) {
    fit_sheet(app);
    const ProgramCall& call = app.declared.kernel().call();
    for_shown_dims(app, [&](AxisRange& range, const StageDim& dim, std::int64_t at, bool) {
        const double blocks = dim.blocks ? 0 : 2 * double(call.blocks[std::size_t(dim.axis)]);
        range = range_around(double(at), std::max(most_whole, std::min(blocks, 2 * most_whole)),
                             double(dim.extent));
    });
}

void zoom_sheet(App& app, double factor, double row, double col) {
    for_shown_dims(app, [&](AxisRange& range, const StageDim& dim, std::int64_t, bool is_row) {
        zoom(range, factor, is_row ? row : col, extent_of(dim));
    });
}

void zoom_sheet_by(App& app, double factor) {
    const PlanePoint point = point_in_sheet(app);
    zoom_sheet(app, factor, double(point.row) + 0.5, double(point.col) + 0.5);
}

void zoom_sheet_to_element(App& app) {
    constexpr double most_elements_with_numbers = 8;
    for_shown_dims(app, [&](AxisRange& range, const StageDim& dim, std::int64_t at, bool) {
        range = range_around(double(at), most_elements_with_numbers, double(dim.extent));
    });
}

void pan_sheet(App& app, double rows, double cols) {
    for_shown_dims(app, [&](AxisRange& range, const StageDim& dim, std::int64_t, bool is_row) {
        range.first += is_row ? rows : cols;
        limit(range, extent_of(dim));
    });
}

void pan_sheet_by(App& app, double rows, double cols) {
    const PlaneView view = view_of_sheet(app);
    pan_sheet(app, rows * view.rows / 8, cols * view.cols / 8);
}

std::string declared_coordinates(const App& app, const std::vector<std::int64_t>& index) {
    const std::vector<StageDim> dims = dims_shown(app);
    std::vector<std::int64_t> numbers = index;
    if (!dims.empty() && dims.front().blocks)
        std::rotate(numbers.begin(), numbers.begin() + 1, numbers.end());
    return fmt::format("{}{}{}", app.declared.array().name, numbers.empty() ? "" : ":",
                       fmt::join(numbers, ","));
}

std::string declared_place(const App& app, const std::vector<std::int64_t>& index) {
    const std::vector<StageDim> dims = dims_shown(app);
    const Program& program = app.declared.kernel().program();
    std::string axes;
    std::string block;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        const std::string& name = program.axes[std::size_t(dims[i].axis)].name;
        if (dims[i].blocks)
            block = fmt::format(" after block {} of {}", index[i], name);
        else
            axes += fmt::format("{}{} {}", axes.empty() ? "" : ", ", name, index[i]);
    }
    return app.declared.array().name + (axes.empty() ? "" : "[" + axes + "]") + block;
}

bool go_to_declared_text(App& app, const std::string& text) {
    try {
        const auto [stage, index] = element_from(app.declared.kernel(), text);
        go_to_declared(app, stage, index, false);
        app.notice.clear();
        return true;
    } catch (const std::exception& error) {
        app.notice = one_line(error.what());
        return false;
    }
}

}  // namespace tilescope::viewer
