#include "viewer/panels/panel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "dump/schema/side_inputs.h"
#include "oracle/replay/tiles.h"

namespace tilescope::viewer {

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

std::string ellipsized(const std::string& line, float width) {
    const auto fits = [&](const std::string& text) { return ImGui::CalcTextSize(text.c_str()).x <= width; };
    if (fits(line)) return line;
    constexpr const char* dots = "...";
    std::string kept = line;
    while (!kept.empty() && !fits(kept + dots)) {
        // A letter of several bytes goes as a whole.
        while (kept.size() > 1 && (static_cast<unsigned char>(kept.back()) & 0xC0U) == 0x80U) kept.pop_back();
        kept.pop_back();
    }
    return kept + dots;
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

int mark_pixels() {
    constexpr float size_at_scale_1 = 13;
    return std::max(1, int(std::lround(ImGui::GetFontSize() / size_at_scale_1)));
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
