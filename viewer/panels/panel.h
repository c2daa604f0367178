#pragma once

#include <fmt/format.h>
#include <imgui.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "viewer/state/app.h"
#include "viewer/window/theme.h"

namespace tilescope::viewer {

/// Pixels between panels.
constexpr float panel_gap = 1;

/// Begins a panel that fills `box` and makes it known by name to scripts; ends with the object.
class PanelScope {
 public:
    PanelScope(App& app, const char* name, const Box& box, ImGuiWindowFlags flags = 0);
    ~PanelScope();
    PanelScope(const PanelScope&) = delete;
    PanelScope& operator=(const PanelScope&) = delete;
};

/// A line of text, kept for scripts as well. One for which there is no room, where text is not wrapped, ends in an ellipsis, and the
/// pointer over it shows the whole.
void text(App& app, const std::string& line, ImU32 colour = colours::text);
/// In as many lines as it takes.
void wrapped(App& app, const std::string& line, ImU32 colour = colours::text);
/// The same of a cell that scripts know otherwise.
void text_of_cell(App& app, const std::string& line, ImU32 colour = colours::text);
/// The same at a place of the draw list.
void text_at(App& app, ImDrawList& draw, ImVec2 at, const std::string& line, ImU32 colour = colours::text,
             float width = std::numeric_limits<float>::max());
/// A line of a list to click on.
bool selectable(App& app, const std::string& line, const std::string& id, bool chosen);
/// In place of what is not there yet: scripts wait for it.
void text_waiting(App& app, const std::string& line);
/// The text, or as much of it as the width has room for and an ellipsis.
std::string ellipsized(const std::string& line, float width);
/// The panel's title, dim.
void title(App& app, const std::string& line);
/// A button that looks chosen or not; as wide as its label where `width` is 0.
bool choice(const char* label, bool chosen, ImU32 text_colour = colours::text, float width = 0);

inline ImVec2 operator+(ImVec2 a, ImVec2 b) {
    return {a.x + b.x, a.y + b.y};
}
inline ImVec2 operator-(ImVec2 a, ImVec2 b) {
    return {a.x - b.x, a.y - b.y};
}

/// Why there is no finding of a tile. What is not there yet is waited for.
std::string why_not_judged(App& app, Stage stage, const TileId& tile);

/// A number for a narrow place: four significant digits.
std::string short_number(double value);
/// The same of a quotient, which is the largest float32 where it was divided by 0.
std::string quotient_text(double value);

/// Whether it is a number, and no mark alone.
bool has_number(const ElementValue& value);
/// The number, or the name of its mark.
std::string text_of_value(const ElementValue& value, Quantity quantity);

/// Pixels of the window for each of a mark's pattern: marks grow with the text.
int mark_pixels();

/// dumped, expected and replayed have one scale, so that one can be flipped for the other; and so has each end to end.
Quantity scaled_as(Quantity quantity);
/// The scale that the quantity has: fixed, or found in the pyramid.
Scale scale_for(App& app, HeatmapPane& pane, const std::shared_ptr<const Pyramid>& pyramid,
                Quantity quantity);

/// A line of the card, and whether it stands beside the one before where there is room.
struct CardLine {
    std::string words;
    ImU32 colour = colours::text;
    bool beside = false;
    bool spare = false;  ///< shown by a low window under the pointer alone
    bool cut = false;    ///< to one line, in place of wrapped
};
/// The file of a declared kernel, and what it is of.
std::string name_of_recording(const App& app);
/// Of a declared kernel, with its file and its call.
std::vector<CardLine> declared_lines(const App& app);

/// A name with its meaning, and a value beside it.
void value_line(App& app, std::string_view name, const std::string& value, ImU32 colour = colours::text);

/// As much as the text of the header needs in a window of that width.
float header_height(const App& app, float width);
void draw_header(App& app, const Box& box);
/// The chain of stages, quantities, references and layouts, from the cursor on.
float controls_height(const App& app, float width);
void draw_controls(App& app, float width);
float status_height(const App& app, float width);
void draw_map(App& app, const Box& box);
void draw_bad_rows(App& app, const Box& box);
void draw_heatmaps(App& app, const Box& box);
/// A declared kernel, in place of one of attention: its worst elements, a stage, an element, and the states that went into it.
void draw_worst(App& app, const Box& box);
void draw_sheet(App& app, const Box& box);
/// The sheets of the stage, in a part of a panel that is so high at most.
void draw_sheet_map(App& app, const StageValues& values, float most_height);
void draw_declared_element(App& app, const Box& box);
float states_height(const App& app);
void draw_states(App& app, const Box& box);
/// Ranks and steps, in place of a recording: the map of them, the chosen one, and what is wrong in all of them.
void draw_ranks(App& app, const Box& box);
void draw_rank_part(App& app, const Box& box);
void draw_rank_faults(App& app, const Box& box);
/// In place of a recording, before one is open.
void draw_welcome(App& app, const Box& box);
void draw_element(App& app, const Box& box);
void draw_tabs(App& app, const Box& box);
void draw_status(App& app, const Box& box);
/// As much as the history needs along the bottom; 0 where it is hidden or in a tab.
float history_height(const App& app);
void draw_history(App& app, const Box& box);
void draw_dialogs(App& app, const Box& box);

/// Contents of the tabs.
void map_contents(App& app);
void bad_rows_contents(App& app);
void draw_row(App& app);
void draw_drift(App& app);
void draw_histogram(App& app);
void draw_budget(App& app);
void draw_causes(App& app);
/// In their place what explains what is wrong in a declared kernel.
void draw_mistakes(App& app);
void draw_source(App& app);
void draw_history_tab(App& app);

/// Draws every panel.
void draw_panels(App& app);

}  // namespace tilescope::viewer
