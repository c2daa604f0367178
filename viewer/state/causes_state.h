#pragma once

#include <string>

#include "viewer/state/app.h"

namespace tilescope::viewer {

/// The cause whose replay is shown; null where there is none.
const FoundCause* chosen_cause(const App& app);

/// In place of causes: why there are none; empty where there are.
std::string why_no_causes(const App& app);
/// In place of the chosen cause's replay of the stage; empty where there is one.
std::string why_no_replay(const App& app, Stage stage);
/// Whether something is being worked on that may change that.
bool may_find_causes(const App& app);

/// Goes to the stage that the cause shows in.
void choose_cause(App& app, std::size_t index);
/// The tab of causes, and where it is shown already, the next (step 1) or previous (-1) of them.
void walk_causes(App& app, int step);

}  // namespace tilescope::viewer
