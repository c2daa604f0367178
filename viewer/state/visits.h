#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dump/schema.h"
#include "viewer/state/view_state.h"

namespace tilescope::viewer {

struct App;

/// A place that was looked at, and how much of it.
struct Visit {
    Stage stage = Stage::s;
    Cursor cursor;
    ViewRanges ranges;
};

/// The way through a recording, as a browser keeps it.
struct Visits {
    std::vector<Visit> places;  ///< of one recording
    std::size_t here = 0;       ///< the one that is shown
    std::uint64_t generation = 0;
};

/// Called with each frame: steps to a neighbour stay within a visit, everything else begins another one.
void note_visit(App& app);
/// Back (-1) or forward (1), as far as there is one.
void walk_visits(App& app, int step);

}  // namespace tilescope::viewer
