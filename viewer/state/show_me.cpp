#include "viewer/state/show_me.h"

#include <fmt/format.h>
#include <imgui.h>

#include <array>
#include <string>
#include <vector>

#include "viewer/state/app.h"
#include "viewer/state/causes_state.h"

namespace tilescope::viewer {

namespace {

/// One thing to look at.
struct Step {
    bool (*applies)(const App& app);
    /// Shows it, and says what it is.
    std::string (*show)(App& app);
};

bool always(const App&) {
    return true;
}

bool is_replayed(const App& app) {
    const FoundCause* cause = chosen_cause(app);
    return cause != nullptr && cause->changes != nullptr && app.has(cause->observed);
}

std::string show_divergence(App& app) {
    go_to_first_divergence(app);
    app.view.quantity = Quantity::over_budget;
    return "where it diverges first: the difference in budgets";
}

std::string show_replay(App& app) {
    choose_cause(app, app.view.cause);
    app.view.quantity = Quantity::replayed;
    return fmt::format("what a kernel with {} would hold; Space shows what was dumped",
                       headline_of(*chosen_cause(app)));
}

std::string show_unexplained(App& app) {
    choose_cause(app, app.view.cause);
    app.view.quantity = Quantity::unexplained;
    return "what that leaves unexplained: blue is within the budget";
}

std::string show_history(App& app) {
    go_to_first_divergence(app);
    app.view.quantity = Quantity::over_budget;
    app.history.focused = true;
    if (app.history.in_tab) app.view.tab = Tab::history;
    return "since when: its history, through which the arrows walk";
}

std::string show_command(App& app) {
    const std::string command = tile_diff_command(app);
    ImGui::SetClipboardText(command.c_str());
    return "the command that says the same was copied: " + command;
}

constexpr std::array steps = {
    Step{always, show_divergence},
    Step{is_replayed, show_replay},
    Step{is_replayed, show_unexplained},
    Step{[](const App& app) { return history_is_shown(app) || app.history.in_tab; }, show_history},
    Step{always, show_command},
};

}  // namespace

void show_next_step(App& app) {
    if (app.document->report == nullptr || !app.document->report->guilty) {
        app.notice =
            app.document->report == nullptr ? "not judged yet" : "nothing diverges: there is nothing to show";
        return;
    }
    std::vector<const Step*> these;
    for (const Step& step : steps)
        if (step.applies(app)) these.push_back(&step);
    ShowMe& shown = app.show_me;
    const bool begins =
        !shown.step || shown.generation != app.document->generation || *shown.step + 1 >= these.size();
    shown = {begins ? 0 : *shown.step + 1, app.document->generation};
    const std::string says = these[*shown.step]->show(app);
    app.notice = fmt::format("{} of {}: {}", *shown.step + 1, these.size(), says);
}

}  // namespace tilescope::viewer
