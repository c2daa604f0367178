#pragma once

#include <string>
#include <string_view>

#include "viewer/state/app.h"

namespace tilescope::viewer {

/// Beside the pointer; kept for scripts as well.
void tooltip(App& app, const std::string& line);
/// What a word of ours means, in a sentence; empty where it has none.
std::string_view meaning_of(std::string_view word);
/// Shows what the word means while the pointer is over the item before, or over a box that was drawn.
void explain(App& app, std::string_view word);
void explain(App& app, std::string_view word, const Box& box);

}  // namespace tilescope::viewer
