#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "viewer/panels/panel.h"

namespace tilescope::viewer {

/// Letters that a cell needs beside its mark: two numbers next to each other, or one above the other.
inline constexpr float least_letters = 20;
inline constexpr float most_letters = 44;
inline constexpr float stacked_letters = 7.5F;

/// One step, to be drawn.
struct HistoryCell {
    const HistoryStep& step;
    Box box;
    bool stacked = false;  ///< expected under dumped
    bool named = false;    ///< with its stage
    bool first_wrong = false;
    bool selected = false;
    bool undeclared = false;
};
void draw_history_cell(App& app, ImDrawList& draw, const HistoryCell& cell);
/// What is known of the step's element, as lines.
std::string describe_step(const App& app, const HistoryCell& cell);

ImU32 colour_of(StepState state);
/// A shape for each state, so that they differ without colour, too.
void draw_step_mark(ImDrawList& draw, ImVec2 centre, float radius, StepState state);
/// What the state is called, and what it means in a sentence: of one recording against the oracle, or of two.
std::string_view word_of(StepState state, bool pair);
const char* says(StepState state, bool pair);

}  // namespace tilescope::viewer
