#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oracle/heatmap/pixel_history.h"
#include "viewer/state/view_state.h"

namespace tilescope::viewer {

struct App;

/// The history of an element, as it was left in the frame before.
struct HistoryView {
    bool focused = false;  ///< arrows walk through it
    bool in_tab = false;   ///< the window has no room for it at the bottom
    std::shared_ptr<const PixelHistory> shown;
    std::uint64_t generation = 0;                 ///< of the document that it is of
    std::size_t first_tile = 0;                   ///< moment of the first tile that there was room for
    std::optional<PixelHistory::Index> followed;  ///< the step at the cursor that the panel was scrolled to

    /// Who walks through a history stays in it, wherever its elements are.
    struct Walk {
        HistoryPlace place;
        Stage stage = Stage::s;
        Cursor cursor;  ///< where it has come
    };
    std::optional<Walk> walk;
};

/// The moment that the cursor is in, and the step of the stage that is looked at, where the history has it.
struct HistoryCursor {
    std::size_t moment = 0;
    std::optional<std::size_t> step;
};

/// Null before the first one is there. Another one is asked for when the cursor goes elsewhere, and the one
/// before stays until it is there.
std::shared_ptr<const PixelHistory> ask_history(App& app);
HistoryCursor cursor_in(const App& app, const PixelHistory& history);
/// Stages that the report does not judge, because nothing declares what they do.
std::vector<Stage> undeclared_stages(const App& app);

void go_to_step(App& app, const PixelHistory& history, PixelHistory::Index index);
/// To a moment of the history, as far as it goes: to the stage that is looked at, if that has one there.
void go_to_moment(App& app, const PixelHistory& history, std::size_t moment);
/// By moments, or by steps of one moment, past those that were not recorded.
void walk_history(App& app, int moments, int steps);
bool history_is_shown(const App& app);
bool history_takes_arrows(const App& app);
/// Shows it, with the arrows, or hides it.
void toggle_history(App& app);

/// "o[0,1,57,12]", the element that the history is of.
std::string title_of(const PixelHistory& history, const App& app);

}  // namespace tilescope::viewer
