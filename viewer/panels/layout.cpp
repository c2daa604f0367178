// Where the panels are, and the splitters between them.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "viewer/panels/panel.h"
#include "viewer/state/selection.h"

namespace tilescope::viewer {

namespace {

/// What the panels share.
struct Room {
    Box window;
    float header = 0;  ///< heights
    float history = 0;
    float status = 0;
    float em = 1;                    ///< size of the font
    const Shares* shares = nullptr;  ///< that somebody chose
    bool wide = false;               ///< the column on the right holds lines of 110 letters
    bool threads = false;            ///< two lines more for the element
    bool writers = false;            ///< two more lines for the element
    bool ranks = false;              ///< and steps are shown in place of a recording
    bool declared = false;           ///< a declared kernel is, whose elements need fewer lines
    bool high_tab =
        false;  ///< the tab that is shown needs more lines than a low window has beside the element
};

/// Where a panel is.
struct PanelPlace {
    void (*draw)(App& app, const Box& box);
    Box (*place)(const Room& room);
    bool (*is_shown)(const App& app);
};

bool always(const App&) {
    return true;
}
bool of_recording(const App& app) {
    return app.shows_recording();
}
bool of_declared(const App& app) {
    return app.shows_declared();
}
bool of_ranks(const App& app) {
    return app.ranks.shown;
}
bool of_nothing(const App& app) {
    return !app.shows_anything();
}

/// Pixels of the share that somebody chose of `whole`, between limits; what is found otherwise.
float chosen(const Room& room, Split split, float whole, float least, float most, float found) {
    const double share = (*room.shares)[static_cast<std::size_t>(split)];
    return std::round(share > 0 ? std::clamp(float(share) * whole, least, std::max(least, most)) : found);
}

float left_width(const Room& room) {
    const float width = room.window.width;
    if (width < 70 * room.em) return 0;
    return chosen(room, Split::left, width, 12 * room.em, 0.4F * width,
                  std::clamp(0.235F * width, 18 * room.em, 32 * room.em));
}
float right_width(const Room& room) {
    const float width = room.window.width;
    // The heatmap stays beside the text.
    if (room.wide)
        return std::min(70 * room.em, std::max(0.5F * width, width - left_width(room) - 23 * room.em));
    if (width < 52 * room.em) return 0;
    return chosen(room, Split::right, width, 20 * room.em, 0.55F * width,
                  std::clamp(0.27F * width, 26 * room.em, 44 * room.em));
}
float body_height(const Room& room) {
    return room.window.height - room.header - room.history - room.status -
           (room.history > 0 ? 3 : 2) * panel_gap;
}

/// Whether it is known of any stage who wrote it.
bool has_writers(const Recording& recording) {
    return std::ranges::any_of(stages_of(recording.problem()),
                               [&](const StageInfo& info) { return recording.has_writers(info.stage); });
}

/// Whether any stage's are declared.
bool has_threads(const Recording& recording) {
    return std::ranges::any_of(recording.threads().stages, &ThreadLayout::declared);
}

Box header_box(const Room& room) {
    return {0, 0, room.window.width, room.header};
}

Box map_box(const Room& room) {
    const float body = body_height(room);
    return {0, room.header + panel_gap, left_width(room),
            chosen(room, Split::map, body, 0.15F * body, 0.85F * body, 0.52F * body)};
}

Box bad_box(const Room& room) {
    const Box map = map_box(room);
    return {0, map.y + map.height + panel_gap, map.width, body_height(room) - map.height - panel_gap};
}

Box left_box(const Room& room) {
    return {0, room.header + panel_gap, left_width(room), body_height(room)};
}

Box heatmap_box(const Room& room) {
    const float left = left_width(room);
    const float right = right_width(room);
    return {left + panel_gap, room.header + panel_gap, room.window.width - left - right - 2 * panel_gap,
            body_height(room)};
}

/// Not high enough for the element in full above the tabs.
bool is_low(float body, float em) {
    return body < 36 * em;
}

Box element_box(const Room& room) {
    const float right = right_width(room);
    // The tabs of a low window need most of it; what the element has more is reached by the wheel. Name and finding stay.
    constexpr float name_and_finding = 3.9F;
    const float lines = 18.4F + (room.writers ? 3.0F : 0) + (room.threads ? 2.0F : 0);
    const float body = body_height(room);
    const float low = room.high_tab ? name_and_finding * room.em : 0.36F * body;
    constexpr float lines_declared = 16;
    const float found = room.ranks              ? 0.6F * body
                        : is_low(body, room.em) ? low
                        : room.declared         ? lines_declared * room.em
                                                : lines * room.em;
    return {room.window.width - right, room.header + panel_gap, right,
            chosen(room, Split::element, body, 0.1F * body, 0.85F * body, found)};
}

Box tabs_box(const Room& room) {
    const Box element = element_box(room);
    return {element.x, element.y + element.height + panel_gap, element.width,
            body_height(room) - element.height - panel_gap};
}

Box history_box(const Room& room) {
    return {0, room.window.height - room.status - panel_gap - room.history, room.window.width, room.history};
}

Box status_box(const Room& room) {
    return {0, room.window.height - room.status, room.window.width, room.status};
}

Box ranks_box(const Room& room) {
    return {0, room.header + panel_gap, room.window.width - right_width(room) - panel_gap, body_height(room)};
}

Box body_box(const Room& room) {
    return {0, room.header + panel_gap, room.window.width, body_height(room)};
}

Box whole_box(const Room& room) {
    return room.window;
}

constexpr std::array panels = {
    PanelPlace{draw_header, header_box, always},
    PanelPlace{draw_map, map_box, of_recording},
    PanelPlace{draw_bad_rows, bad_box, of_recording},
    PanelPlace{draw_heatmaps, heatmap_box, of_recording},
    PanelPlace{draw_element, element_box, of_recording},
    PanelPlace{draw_tabs, tabs_box, of_recording},
    PanelPlace{draw_history, history_box, of_recording},
    PanelPlace{draw_ranks, ranks_box, of_ranks},
    PanelPlace{draw_rank_part, element_box, of_ranks},
    PanelPlace{draw_rank_faults, tabs_box, of_ranks},
    PanelPlace{draw_worst, left_box, of_declared},
    PanelPlace{draw_sheet, heatmap_box, of_declared},
    PanelPlace{draw_declared_element, element_box, of_declared},
    PanelPlace{draw_tabs, tabs_box, of_declared},
    PanelPlace{draw_states, history_box, of_declared},
    PanelPlace{draw_status, status_box, always},
    PanelPlace{draw_welcome, body_box, of_nothing},
    PanelPlace{draw_dialogs, whole_box, always},
};

/// Between two panels: dragging moves it, a double click puts it back where the layout has it.
struct Splitter {
    Split split;
    bool across;       ///< it is moved to the left and right
    bool of_ranks;     ///< ranks and steps have it as well
    bool of_declared;  ///< and declared kernels
    Box (*place)(const Room& room);
    /// The share that is chosen where it is dragged to a pixel.
    float (*share_at)(const Room& room, float pixel);
};

Box beside(const Box& box, float x) {
    return {x, box.y, 0, box.height};
}
Box below(const Box& box) {
    return {box.x, box.y + box.height, box.width, 0};
}

constexpr std::array splitters = {
    Splitter{Split::left, true, false, true,
             [](const Room& room) { return beside(heatmap_box(room), left_width(room)); },
             [](const Room& room, float x) { return x / room.window.width; }},
    Splitter{
        Split::right, true, true, true,
        [](const Room& room) { return beside(heatmap_box(room), room.window.width - right_width(room)); },
        [](const Room& room, float x) { return 1 - x / room.window.width; }},
    Splitter{Split::map, false, false, false, [](const Room& room) { return below(map_box(room)); },
             [](const Room& room, float y) { return (y - map_box(room).y) / body_height(room); }},
    Splitter{Split::element, false, true, true, [](const Room& room) { return below(element_box(room)); },
             [](const Room& room, float y) { return (y - element_box(room).y) / body_height(room); }},
    Splitter{Split::history, false, false, true,
             [](const Room& room) {
                 const Box box = history_box(room);
                 return Box{box.x, box.y, room.history > 0 ? box.width : 0, 0};
             },
             [](const Room& room, float y) {
                 return (room.window.height - room.status - y) / room.window.height;
             }},
};

void draw_splitter(App& app, const Room& room, const Splitter& splitter) {
    constexpr float grip = 7;
    const std::string name = fmt::format("splitter {}", to_string(splitter.split));
    Box box = splitter.place(room);
    const float length = splitter.across ? box.height : box.width;
    if (length <= 0 || (splitter.split == Split::left && box.x <= 0)) return;
    (splitter.across ? box.x : box.y) -= grip / 2;
    (splitter.across ? box.width : box.height) = grip;
    app.readout.place(name, box);
    ImGui::SetNextWindowPos({box.x, box.y});
    ImGui::SetNextWindowSize({box.width, box.height});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowMinSize, {1, 1});
    ImGui::Begin(name.c_str(), nullptr,
                 ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                     ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoFocusOnAppearing |
                     ImGuiWindowFlags_NoBringToFrontOnFocus);
    ImGui::InvisibleButton("grip", {box.width, box.height});
    double& share = app.settings.shares[static_cast<std::size_t>(splitter.split)];
    const ImVec2 pointer = ImGui::GetIO().MousePos;
    if (ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Left, 1))
        share =
            std::clamp(double(splitter.share_at(room, splitter.across ? pointer.x : pointer.y)), 0.01, 0.99);
    if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) share = 0;
    if (ImGui::IsItemHovered() || ImGui::IsItemActive()) {
        ImGui::SetMouseCursor(splitter.across ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
        ImGui::GetWindowDrawList()->AddRectFilled(
            {box.x + (splitter.across ? 2 : 0), box.y + (splitter.across ? 0 : 2)},
            {box.x + box.width - (splitter.across ? 2 : 0), box.y + box.height - (splitter.across ? 0 : 2)},
            colours::accent_dim);
    }
    ImGui::End();
    ImGui::PopStyleVar(2);
}

}  // namespace

void draw_panels(App& app) {
    const ImVec2 size = ImGui::GetIO().DisplaySize;
    if (!is_shown(app, app.view.tab)) app.view.tab = app.shows_declared() ? Tab::causes : Tab::row;
    const bool shows_elements = app.shows_recording() || app.shows_declared();
    const bool wide = app.view.tab == Tab::budget && shows_elements && !shown_document(app).pair();
    const float em = ImGui::GetFontSize();
    // What is above the history stays higher than it is.
    app.history.in_tab = size.x < 70 * em || size.y < 62 * em;
    Room room{{0, 0, size.x, size.y},
              header_height(app, size.x),
              0,
              status_height(app, size.x),
              em,
              &app.settings.shares,
              wide,
              app.shows_recording() && has_threads(*app.document->recording),
              app.shows_recording() && has_writers(*app.document->recording),
              app.ranks.shown,
              app.shows_declared(),
              app.view.tab != Tab::row && app.view.tab != Tab::histogram};
    const float history = app.shows_recording()  ? history_height(app)
                          : app.shows_declared() ? states_height(app)
                                                 : 0;
    if (history > 0) room.history = chosen(room, Split::history, size.y, 6 * em, 0.6F * size.y, history);
    app.narrow = left_width(room) <= 0;
    for (const PanelPlace& panel : panels) {
        const Box box = panel.place(room);
        if (panel.is_shown(app) && box.width > 0 && box.height > 0) panel.draw(app, box);
    }
    if (of_nothing(app)) return;
    for (const Splitter& splitter : splitters) {
        const bool has = app.ranks.shown        ? splitter.of_ranks
                         : app.shows_declared() ? splitter.of_declared
                                                : true;
        if (has) draw_splitter(app, room, splitter);
    }
}

}  // namespace tilescope::viewer
