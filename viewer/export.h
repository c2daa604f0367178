#pragma once

#include <string>

namespace tilescope::viewer {

struct App;

/// "tile-view.EXTENSION" in the working directory, or with a number where that is taken.
std::string free_name(const std::string& extension);

/// Asks for the selected region, or the cursor's tile, to be written as .npy once its values are there.
void export_selection(App& app);

/// Writes the .npy that waits, once its values are there; called once a frame.
void serve_exports(App& app);

/// Fixes the range of the quantity at what is shown now, or lets it be found again.
void toggle_fixed_range(App& app);

}  // namespace tilescope::viewer
