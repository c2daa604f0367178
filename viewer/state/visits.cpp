#include "viewer/state/visits.h"

#include <cstdlib>

#include "viewer/state/app.h"

namespace tilescope::viewer {

namespace {

constexpr std::size_t most_visits = 256;

bool is_neighbour(const Visit& before, Stage stage, const Cursor& cursor) {
    const Cursor& from = before.cursor;
    const auto near = [](std::int64_t a, std::int64_t b) { return std::abs(a - b) <= 1; };
    return before.stage == stage && from.batch == cursor.batch && from.head == cursor.head &&
           near(from.row, cursor.row) && near(from.key, cursor.key) && near(from.feature, cursor.feature) &&
           near(from.lane, cursor.lane) && near(from.unit, cursor.unit);
}

}  // namespace

void note_visit(App& app) {
    Visits& visits = app.visits;
    const Visit now{app.view.stage, app.view.cursor, app.view.ranges};
    if (visits.places.empty() || visits.generation != app.document->generation) {
        visits = {{now}, 0, app.document->generation};
        return;
    }
    Visit& here = visits.places[visits.here];
    if (is_neighbour(here, now.stage, now.cursor)) {
        here = now;
        return;
    }
    visits.places.resize(visits.here + 1);
    visits.places.push_back(now);
    if (visits.places.size() > most_visits) visits.places.erase(visits.places.begin());
    visits.here = visits.places.size() - 1;
}

void walk_visits(App& app, int step) {
    Visits& visits = app.visits;
    const bool back = step < 0;
    if (back ? visits.here == 0 : visits.here + 1 >= visits.places.size()) {
        app.notice = back ? "this is where it began" : "this is the last place";
        return;
    }
    visits.here += back ? std::size_t(-1) : std::size_t(1);
    const Visit& visit = visits.places[visits.here];
    go_to(app, visit.stage, visit.cursor, true);
    app.view.ranges = visit.ranges;
    app.bad.list.stage = visit.stage;
}

}  // namespace tilescope::viewer
