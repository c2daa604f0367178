#pragma once

#include <memory>
#include <string>

#include "oracle/heatmap/histogram.h"
#include "oracle/heatmap/pyramid.h"
#include "oracle/heatmap/quantity.h"

namespace tilescope::viewer {

struct App;
struct Document;

/// What is on screen, of attention or of a declared kernel.
const Document& shown_document(const App& app);
/// The quantity of its heatmap, and the reference that is of.
Quantity shown_quantity(const App& app);

/// The element at the cursor, as --explain-tolerance has it.
std::string selected_element_text(const App& app);
/// The region, or else the cursor's tile.
Rect selected_rect(const App& app);
/// "tile of acc: rows 0-31, columns 32-63: 32 x 32".
std::string selection_text(const App& app);
/// Of the selection; null until it is there.
std::shared_ptr<const Histogram> ask_histogram(App& app);
/// Of the matrix that the selection lies in, against the reference on screen; null until it is there.
std::shared_ptr<const Pyramid> ask_selected_picture(App& app, Quantity quantity);

}  // namespace tilescope::viewer
