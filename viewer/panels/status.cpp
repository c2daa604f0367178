#include <algorithm>

#include "oracle/report/text.h"
#include "viewer/panels/panel.h"

namespace tilescope::viewer {

namespace {

constexpr const char* escape_hint = "   (Escape)";

void draw_progress(App& app, float width) {
    const float height = 0.5F * ImGui::GetFontSize();
    const ImVec2 at = ImGui::GetCursorScreenPos() + ImVec2(0, 0.3F * ImGui::GetFontSize());
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    draw.AddRectFilled(at, at + ImVec2(width, height), colours::line, 2);
    draw.AddRectFilled(at, at + ImVec2(width * float(app.status.progress), height), colours::accent, 2);
    ImGui::Dummy({width, ImGui::GetFontSize()});
}

std::string place_under_pointer(const App& app) {
    if (app.shows_declared() && app.declared.hovered && app.pointer_leads)
        return declared_coordinates(app, index_at(app, *app.declared.hovered));
    if (!app.hovered || !app.pointer_leads || !app.shows_recording()) return "";
    const Plane plane = plane_at(app.problem(), app.view.cursor, app.hovered_stage);
    return coordinates_of(app.problem(),
                          element_at(app.problem(), plane, app.hovered->first, app.hovered->second));
}

void draw_message(App& app) {
    if (!app.status.error.empty()) {
        text(app, app.status.error + escape_hint, colours::bad);
    } else if (app.status.gone) {
        text(app,
             fmt::format("{} is gone; what was read of it stays",
                         app.ranks.shown ? "a recording" : "the file"),
             colours::bad);
    } else if (app.status.changed) {
        text(app, "the file has changed; F5 reads it again", colours::bad);
    } else if (!app.status.message.empty()) {
        draw_progress(app, 14 * ImGui::GetFontSize());
        ImGui::SameLine();
        const std::string share =
            app.status.progress > 0 ? fmt::format("  {:.0f} %", 100 * app.status.progress) : "";
        text(app, fmt::format("{}{}   Escape cancels", app.status.message, share), colours::dim);
    } else if (!app.notice.empty()) {
        text(app, app.notice);
    } else if (app.ranks.shown) {
        text(app, "Enter opens the recording, Home is the first wrong one, ? lists the keys", colours::dim);
    } else if (app.shows_declared()) {
        text(app, "N is the next of the worst elements, PageDown the next stage, ? lists the keys",
             colours::dim);
    } else if (app.shows_recording() && app.document->report != nullptr) {
        text(app, tolerance_line(*app.document->report), colours::dim);
    }
}

}  // namespace

float status_height(const App& app, float width) {
    const float em = ImGui::GetFontSize();
    const std::string& line = app.status.error.empty() ? app.notice : app.status.error;
    const float room = width - 2 * ImGui::GetStyle().WindowPadding.x;
    // A complaint is read to its end.
    return 1.3F * em +
           std::max(em, ImGui::CalcTextSize((line + escape_hint).c_str(), nullptr, false, room).y);
}

void draw_status(App& app, const Box& box) {
    const PanelScope panel(app, "status", box);
    ImGui::SetCursorPosY(0.45F * ImGui::GetFontSize());
    ImGui::PushTextWrapPos(0);
    draw_message(app);
    ImGui::PopTextWrapPos();
    const std::string place = place_under_pointer(app);
    if (place.empty()) return;
    const float x = box.width - ImGui::CalcTextSize(place.c_str()).x - 2 * ImGui::GetStyle().WindowPadding.x;
    // The place gives way to a longer message.
    if (x < ImGui::GetItemRectMax().x - box.x) return;
    ImGui::SameLine(x);
    text(app, place);
}

}  // namespace tilescope::viewer
