#include "viewer/panels/panel.h"

#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "dump/schema/side_inputs.h"
#include "oracle/replay/tiles.h"
#include "viewer/panels/words.h"

namespace tilescope::viewer {

PanelScope::PanelScope(App& app, const char* name, const Box& box, ImGuiWindowFlags flags) {
    app.readout.place_panel(name, box);
    ImGui::SetNextWindowPos({box.x, box.y});
    ImGui::SetNextWindowSize({box.width, box.height});
    ImGui::Begin(name, nullptr,
                 flags | ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                     ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoSavedSettings |
                     ImGuiWindowFlags_NoBringToFrontOnFocus);
    // The window is cleared to the colour of panels: only what is between them is left to draw.
    ImDrawList& draw = *ImGui::GetBackgroundDrawList();
    const ImVec2 end{box.x + box.width, box.y + box.height};
    draw.AddRectFilled({end.x, box.y}, {end.x + panel_gap, end.y + panel_gap}, colours::gap);
    draw.AddRectFilled({box.x, end.y}, {end.x, end.y + panel_gap}, colours::gap);
}

PanelScope::~PanelScope() {
    ImGui::End();
}

namespace {

/// Without an end where a line is wrapped, where the window grows with it or is scrolled to its end.
float room_for(const std::string& line) {
    const ImGuiWindow& window = *ImGui::GetCurrentWindowRead();
    constexpr ImGuiWindowFlags grows =
        ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_HorizontalScrollbar;
    const bool cut =
        window.DC.TextWrapPos < 0 && (window.Flags & grows) == 0 && line.find('\n') == std::string::npos;
    return cut ? ImGui::GetContentRegionAvail().x : std::numeric_limits<float>::max();
}

void draw_line(App& app, const std::string& shown, const std::string& line, ImU32 colour) {
    ImGui::PushStyleColor(ImGuiCol_Text, colour);
    ImGui::TextUnformatted(shown.data(), shown.data() + shown.size());
    ImGui::PopStyleColor();
    if (shown != line && ImGui::IsItemHovered()) tooltip(app, line);
}

}  // namespace

void text(App& app, const std::string& line, ImU32 colour) {
    const std::string shown = ellipsized(line, room_for(line));
    app.readout.add(shown);
    draw_line(app, shown, line, colour);
}

void wrapped(App& app, const std::string& line, ImU32 colour) {
    ImGui::PushTextWrapPos(0);
    text(app, line, colour);
    ImGui::PopTextWrapPos();
}

void text_of_cell(App& app, const std::string& line, ImU32 colour) {
    draw_line(app, ellipsized(line, room_for(line)), line, colour);
}

void text_at(App& app, ImDrawList& draw, ImVec2 at, const std::string& line, ImU32 colour, float width) {
    const std::string shown = ellipsized(line, width);
    app.readout.add(shown);
    const ImVec2 corner{std::round(at.x), std::round(at.y)};
    draw.AddText(corner, colour, shown.data(), shown.data() + shown.size());
    if (shown == line || !ImGui::IsWindowHovered()) return;
    if (ImGui::IsMouseHoveringRect(corner, corner + ImVec2(width, ImGui::GetFontSize()))) tooltip(app, line);
}

bool selectable(App& app, const std::string& line, const std::string& id, bool chosen) {
    const std::string shown = ellipsized(line, ImGui::GetContentRegionAvail().x);
    const bool pressed = ImGui::Selectable((shown + "##" + id).c_str(), chosen);
    if (shown != line && ImGui::IsItemHovered()) tooltip(app, line);
    return pressed;
}

void text_waiting(App& app, const std::string& line) {
    if (app.status.written_over) return text(app, "not read before the file changed", colours::dim);
    app.waits = true;
    text(app, line, colours::dim);
}

std::string ellipsized(const std::string& line, float width) {
    if (width == std::numeric_limits<float>::max() || ImGui::CalcTextSize(line.c_str()).x <= width)
        return line;
    constexpr const char* dots = "...";
    const char* end = nullptr;
    ImGui::GetFont()->CalcTextSizeA(ImGui::GetFontSize(), std::max(0.0F, width - ImGui::CalcTextSize(dots).x),
                                    0, line.data(), line.data() + line.size(), &end);
    return std::string(line.data(), end) + dots;
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

bool has_number(const ElementValue& value) {
    return value.kind == Kind::finite || (value.kind == Kind::inherited && !std::isnan(value.value));
}

std::string text_of_value(const ElementValue& value, Quantity quantity) {
    if (!has_number(value)) return std::string(kind_style(value.kind).name);
    // Quotients by a budget of 0 are the largest float32.
    return quantity_info(quantity).is_signed ? short_number(value.value) : quotient_text(value.value);
}

int mark_pixels() {
    constexpr float size_at_scale_1 = 13;
    return std::max(1, int(std::lround(ImGui::GetFontSize() / size_at_scale_1)));
}

Quantity scaled_as(Quantity quantity) {
    const QuantityInfo& info = quantity_info(quantity);
    if (info.computed_as == Quantity::expected) return Quantity::dumped;
    return info.against == Reference::end_to_end ? info.computed_as : quantity;
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

}  // namespace tilescope::viewer
