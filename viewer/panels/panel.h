#pragma once

#include <fmt/format.h>
#include <imgui.h>

#include <string>

#include "viewer/app.h"
#include "viewer/theme.h"

namespace tilescope::viewer {

/// Begins a panel that fills `box` and makes it known by name to scripts; ends with the object.
class PanelScope {
 public:
    PanelScope(App& app, const char* name, const Box& box, ImGuiWindowFlags flags = 0);
    ~PanelScope();
    PanelScope(const PanelScope&) = delete;
    PanelScope& operator=(const PanelScope&) = delete;
};

/// A line of text, kept for scripts as well.
void text(App& app, const std::string& line, ImU32 colour = colours::text);
/// The same at a place of the draw list.
void text_at(App& app, ImDrawList& draw, ImVec2 at, const std::string& line, ImU32 colour = colours::text);
/// In place of what is not there yet: scripts wait for it.
void text_waiting(App& app, const std::string& line);
/// The panel's title, dim.
void title(App& app, const std::string& line);
/// A button that looks chosen or not.
bool choice(const char* label, bool chosen, ImU32 text_colour = colours::text);

inline ImVec2 operator+(ImVec2 a, ImVec2 b) {
    return {a.x + b.x, a.y + b.y};
}
inline ImVec2 operator-(ImVec2 a, ImVec2 b) {
    return {a.x - b.x, a.y - b.y};
}

/// A number for a narrow place: four significant digits.
std::string short_number(double value);

/// The scale that the quantity has: fixed, or found in the pyramid.
Scale scale_for(App& app, HeatmapPane& pane, const std::shared_ptr<const Pyramid>& pyramid,
                Quantity quantity);

void draw_header(App& app, const Box& box);
void draw_map(App& app, const Box& box);
void draw_bad_rows(App& app, const Box& box);
void draw_heatmaps(App& app, const Box& box);
void draw_element(App& app, const Box& box);
void draw_tabs(App& app, const Box& box);
void draw_status(App& app, const Box& box);
void draw_dialogs(App& app, const Box& box);

/// Contents of the tabs.
void draw_row(App& app);
void draw_drift(App& app);
void draw_histogram(App& app);
void draw_budget(App& app);

/// Draws every panel.
void draw_panels(App& app);

}  // namespace tilescope::viewer
