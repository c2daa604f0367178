// Elements coloured by the warps, lanes or registers that own them, and those of one thread alone.

#include <optional>

#include "viewer/panels/pane_frame.h"

namespace tilescope::viewer {

namespace {

Colour colour_of(const ViewState& view, const Owner& owner, const std::optional<Owner>& alone) {
    Colour colour{0, 0, 0, 0};
    if (view.coloured_by != ThreadGroup::none) colour = colour_of_number(number_in(view.coloured_by, owner));
    const bool lit = !alone || in_same_group(view.alone, owner, *alone);
    return lit ? colour : dimmed(colour);
}

std::shared_ptr<const Tint> tint_for(const App& app, const PaneFrame& pane, const ThreadMap& threads,
                                     const std::optional<Owner>& alone) {
    const Rect seen = pane.visible();
    auto tint = std::make_shared<Tint>(Tint{seen, {}});
    tint->colours.reserve(std::size_t((seen.last_row - seen.first_row) * (seen.last_col - seen.first_col)));
    for (std::int64_t row = seen.first_row; row < seen.last_row; ++row) {
        for (std::int64_t col = seen.first_col; col < seen.last_col; ++col) {
            const PlaceInTile place = place_in_tile(app.problem(), pane.plane, row, col);
            tint->colours.push_back(
                colour_of(app.view, threads.owner(place.tile, place.row, place.col), alone));
        }
    }
    return tint;
}

}  // namespace

bool wants_tint(const App& app) {
    return app.view.coloured_by != ThreadGroup::none || app.view.alone != ThreadGroup::none;
}

std::optional<ThreadMap> threads_of(const App& app, Stage stage) {
    const Recording& recording = *app.document->recording;
    return thread_map(app.problem(), stage, recording.threads(), recording.name());
}

Owner owner_at_cursor(const App& app, const ThreadMap& threads, Stage stage) {
    const Problem& problem = app.problem();
    const PlanePoint point = point_at(problem, app.view.cursor, stage);
    const PlaceInTile place =
        place_in_tile(problem, plane_at(problem, app.view.cursor, stage), point.row, point.col);
    return threads.owner(place.tile, place.row, place.col);
}

std::shared_ptr<const Tint> tint_of(App& app, std::size_t index, const PaneFrame& pane) {
    KeptTint& kept = app.tints[index];
    if (!wants_tint(app) || thread_lines(app, pane.plane.stage) != ThreadLines::declared) {
        kept = {};
        return nullptr;
    }
    const ThreadMap threads = *threads_of(app, pane.plane.stage);
    std::optional<Owner> alone;
    if (app.view.alone != ThreadGroup::none) alone = owner_at_cursor(app, threads, pane.plane.stage);
    const KeptTint now{app.document->generation, pane.plane, pane.view, app.view.coloured_by,
                       app.view.alone,           alone,      kept.tint};
    if (kept.tint == nullptr || !(kept == now)) {
        kept = now;
        kept.tint = tint_for(app, pane, threads, alone);
    }
    return kept.tint;
}

}  // namespace tilescope::viewer
