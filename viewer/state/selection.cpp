// The element and the part of a matrix that tabs and exports are of: here alone attention and declared kernels differ.

#include "viewer/state/selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "viewer/state/app.h"

namespace tilescope::viewer {

namespace {

std::string_view name_of_stage(const App& app) {
    if (app.shows_declared()) return app.declared.array().name;
    return stage_info(app.problem(), app.view.stage).name;
}

std::string_view name_of_rows(const App& app) {
    const bool keys = !app.shows_declared() && label_of(row_axis_of(app.problem(), app.view.stage)) == "key";
    return keys ? "keys" : "rows";
}

Plane selected_plane(const App& app) {
    return plane_at(app.problem(), app.view.cursor, app.view.stage);
}

}  // namespace

const Document& shown_document(const App& app) {
    return app.shows_declared() ? *app.declared.document : *app.document;
}

Quantity shown_quantity(const App& app) {
    return app.shows_declared() ? quantity_of_sheet(app) : against(app.view.against, app.view.quantity);
}

std::string selected_element_text(const App& app) {
    if (!app.shows_declared()) return coordinates_of(app.problem(), selected_element(app));
    std::string text = declared_coordinates(app, index_shown(app));
    std::ranges::replace(text, ':', ',');
    return text;
}

Rect selected_rect(const App& app) {
    if (app.view.region) return *app.view.region;
    const PlaneShape shape =
        app.shows_declared() ? shape_of_sheet(app) : plane_shape(app.problem(), app.view.stage);
    const PlanePoint point =
        app.shows_declared() ? point_in_sheet(app) : point_at(app.problem(), app.view.cursor, app.view.stage);
    const std::int64_t row = point.row / shape.tile_rows * shape.tile_rows;
    const std::int64_t col = point.col / shape.tile_cols * shape.tile_cols;
    return {row, col, std::min(row + shape.tile_rows, shape.rows),
            std::min(col + shape.tile_cols, shape.cols)};
}

std::string selection_text(const App& app) {
    const Rect rect = selected_rect(app);
    return fmt::format("{} of {}: {} {}-{}, columns {}-{}: {} x {}", app.view.region ? "region" : "tile",
                       name_of_stage(app), name_of_rows(app), rect.first_row, rect.last_row - 1,
                       rect.first_col, rect.last_col - 1, rect.last_row - rect.first_row,
                       rect.last_col - rect.first_col);
}

std::shared_ptr<const Histogram> ask_histogram(App& app) {
    if (!app.shows_declared())
        return app.session.request_histogram(selected_plane(app), selected_rect(app), app.view.against);
    return app.session.request_histogram(app.declared.generation, selected_part(app));
}

std::shared_ptr<const Pyramid> ask_selected_picture(App& app, Quantity quantity) {
    const Quantity named = against(app.view.against, quantity);
    if (!app.shows_declared()) return app.session.request(selected_plane(app), named);
    return ask_picture_of_sheet(app, named);
}

}  // namespace tilescope::viewer
