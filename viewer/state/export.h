#pragma once

#include <string>

#include "oracle/heatmap/heatmap_image.h"

namespace tilescope::viewer {

struct App;
struct Box;

/// "NAME.EXTENSION" in the working directory, or with a number where that is taken.
std::string free_name(const std::string& extension, const std::string& name = "tile-view");

/// Asks for the panel under the pointer, or for all of them, to be written as PNG.
void export_panel(App& app);
void export_panels(App& app);
/// Writes what was asked for, from the whole window's pixels. `scale`: pixels to one unit of the window.
void write_panels(App& app, const Image& window, double scale);
/// A part of the picture; what lies outside is left out.
Image part_of(const Image& window, const Box& box, double scale);

/// Asks for the selected region, or the cursor's tile, to be written as .npy once its values are there.
void export_selection(App& app);

/// Writes the .npy that waits, once its values are there; called once a frame.
void serve_exports(App& app);

/// Fixes the range of the quantity at what is shown now, or lets it be found again.
void toggle_fixed_range(App& app);

}  // namespace tilescope::viewer
