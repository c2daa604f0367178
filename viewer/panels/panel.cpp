#include "viewer/panels/panel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "dump/schema/side_inputs.h"
#include "oracle/replay/tiles.h"

namespace tilescope::viewer {

namespace {

/// What the panels share.
struct Room {
    Box window;
    float header = 0;  ///< heights
    float history = 0;
    float status = 0;
    float em = 1;          ///< size of the font
    bool wide = false;     ///< the column on the right holds lines of 110 letters
    bool writers = false;  ///< two more lines for the element
    bool threads = false;  ///< one more
};

/// Where a panel is.
struct PanelPlace {
    void (*draw)(App& app, const Box& box);
    Box (*place)(const Room& room);
    std::optional<bool> document;  ///< whether one has to be open; nullopt: shown either way
};

constexpr float gap = 1;

float left_width(const Room& room) {
    return room.window.width < 70 * room.em
               ? 0
               : std::clamp(0.21F * room.window.width, 18 * room.em, 30 * room.em);
}
float right_width(const Room& room) {
    // The heatmap stays beside the text.
    if (room.wide)
        return std::min(70 * room.em, std::max(0.5F * room.window.width,
                                               room.window.width - left_width(room) - 23 * room.em));
    return room.window.width < 52 * room.em
               ? 0
               : std::clamp(0.27F * room.window.width, 26 * room.em, 44 * room.em);
}
float body_height(const Room& room) {
    return room.window.height - room.header - room.history - room.status - (room.history > 0 ? 3 : 2) * gap;
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
    return {0, room.header + gap, left_width(room), std::round(0.52F * body_height(room))};
}

Box bad_box(const Room& room) {
    const Box map = map_box(room);
    return {0, map.y + map.height + gap, map.width, body_height(room) - map.height - gap};
}

Box heatmap_box(const Room& room) {
    const float left = left_width(room);
    const float right = right_width(room);
    return {left + gap, room.header + gap, room.window.width - left - right - 2 * gap, body_height(room)};
}

/// Not high enough for the element in full above the tabs.
bool is_low(float body, float em) {
    return body < 36 * em;
}

Box element_box(const Room& room) {
    const float right = right_width(room);
    // The tabs of a low window need most of it; what the element has more is reached by the wheel.
    const float lines = 18.4F + (room.writers ? 3.0F : 0) + (room.threads ? 2.0F : 0);
    const bool low = is_low(body_height(room), room.em);
    const float height = low ? std::round(0.36F * body_height(room)) : lines * room.em;
    return {room.window.width - right, room.header + gap, right, height};
}

Box tabs_box(const Room& room) {
    const Box element = element_box(room);
    return {element.x, element.y + element.height + gap, element.width,
            body_height(room) - element.height - gap};
}

Box history_box(const Room& room) {
    return {0, room.window.height - room.status - gap - room.history, room.window.width, room.history};
}

Box status_box(const Room& room) {
    return {0, room.window.height - room.status, room.window.width, room.status};
}

Box body_box(const Room& room) {
    return {0, room.header + gap, room.window.width, body_height(room)};
}

Box whole_box(const Room& room) {
    return room.window;
}

constexpr std::array panels = {
    PanelPlace{draw_header, header_box, {}},     PanelPlace{draw_map, map_box, true},
    PanelPlace{draw_bad_rows, bad_box, true},    PanelPlace{draw_heatmaps, heatmap_box, true},
    PanelPlace{draw_element, element_box, true}, PanelPlace{draw_tabs, tabs_box, true},
    PanelPlace{draw_history, history_box, true}, PanelPlace{draw_status, status_box, {}},
    PanelPlace{draw_welcome, body_box, false},   PanelPlace{draw_dialogs, whole_box, {}},
};

}  // namespace

PanelScope::PanelScope(App& app, const char* name, const Box& box, ImGuiWindowFlags flags) {
    app.readout.place_panel(name, box);
    ImGui::SetNextWindowPos({box.x, box.y});
    ImGui::SetNextWindowSize({box.width, box.height});
    ImGui::Begin(name, nullptr,
                 flags | ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus);
}

PanelScope::~PanelScope() {
    ImGui::End();
}

void text(App& app, const std::string& line, ImU32 colour) {
    app.readout.add(line);
    ImGui::PushStyleColor(ImGuiCol_Text, colour);
    ImGui::TextUnformatted(line.data(), line.data() + line.size());
    ImGui::PopStyleColor();
}

void text_at(App& app, ImDrawList& draw, ImVec2 at, const std::string& line, ImU32 colour) {
    app.readout.add(line);
    draw.AddText({std::round(at.x), std::round(at.y)}, colour, line.data(), line.data() + line.size());
}

void text_waiting(App& app, const std::string& line) {
    if (app.status.written_over) return text(app, "not read before the file changed", colours::dim);
    app.waits = true;
    text(app, line, colours::dim);
}

void title(App& app, const std::string& line) {
    text(app, line, colours::dim);
}

bool choice(const char* label, bool chosen, ImU32 text_colour, float width) {
    if (chosen) ImGui::PushStyleColor(ImGuiCol_Button, ImGui::GetStyleColorVec4(ImGuiCol_Header));
    ImGui::PushStyleColor(ImGuiCol_Text, text_colour);
    const bool pressed = ImGui::Button(label, {width, 0});
    ImGui::PopStyleColor(chosen ? 2 : 1);
    return pressed;
}

std::string why_not_judged(App& app, Stage stage, const TileId& tile) {
    const Document& document = *app.document;
    const Problem entry = problem_of(app.problem(), document.recording->side_inputs(), tile.batch);
    const TileShape extent = tile_extent(entry, stage, tile);
    if (extent.rows <= 0 || extent.cols <= 0) return "beyond the lengths of this batch entry";
    if (!app.has(stage) || !document.recording->has_tile(stage, tile)) return "its tile was not captured";
    if (app.status.written_over) return "not read before the file changed";
    const bool waits =
        document.map_of(app.view.against).at(stage, tile).state == TileFinding::State::captured ||
        (document.report == nullptr && !app.status.message.empty());
    if (waits) {
        app.waits = true;
        return "not judged yet";
    }
    if (!document.pair() || document.report == nullptr) return "not judged";
    const bool theirs =
        document.other_recording->has_stage(stage) && document.other_recording->has_tile(stage, tile);
    return theirs ? "not compared: the two runs take the KV tiles in another order"
                  : "not compared: the other recording does not hold this tile";
}

std::string short_number(double value) {
    return std::isnan(value) ? "nan" : fmt::format("{:.4g}", value);
}

std::string quotient_text(double value) {
    return value >= double(std::numeric_limits<float>::max()) ? "beyond" : short_number(value);
}

Scale scale_for(App& app, HeatmapPane& pane, const std::shared_ptr<const Pyramid>& pyramid,
                Quantity quantity) {
    const ScaleChoice& choice = app.settings.scales[std::size_t(quantity)];
    if (choice.automatic && pyramid != nullptr)
        return pane.fitted(pyramid, quantity, choice.kind, choice.clip);
    Scale scale{choice.kind, choice.low, choice.high, 1};
    // A fixed range may have been chosen for another kind of scale.
    if (scale.kind == ScaleKind::log && scale.low <= 0) scale.low = std::max(scale.high, 1e-30) * 1e-6;
    if (!(scale.high > scale.low)) scale.high = scale.low + 1;
    scale.threshold = std::max(std::abs(scale.low), std::abs(scale.high)) * 1e-4;
    return scale;
}

void draw_panels(App& app) {
    const ImVec2 size = ImGui::GetIO().DisplaySize;
    const bool wide = app.view.tab == Tab::budget && app.document != nullptr && !app.document->pair();
    const float em = ImGui::GetFontSize();
    // What is above the history stays higher than it is.
    app.history.in_tab = size.x < 70 * em || size.y < 62 * em;
    const Room room{{0, 0, size.x, size.y},
                    header_height(app, size.x),
                    history_height(app),
                    status_height(app, size.x),
                    em,
                    wide,
                    app.document != nullptr && has_writers(*app.document->recording),
                    app.document != nullptr && has_threads(*app.document->recording)};
    app.narrow = left_width(room) <= 0;
    if (int(app.view.tab) >= shown_tabs(app)) app.view.tab = Tab::row;
    for (const PanelPlace& panel : panels) {
        const Box box = panel.place(room);
        const bool shown = !panel.document || *panel.document == (app.document != nullptr);
        if (shown && box.width > 0 && box.height > 0) panel.draw(app, box);
    }
}

}  // namespace tilescope::viewer
