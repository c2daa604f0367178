#include <algorithm>
#include <array>
#include <filesystem>

#include "oracle/report/text.h"
#include "viewer/panels/panel.h"

namespace tilescope::viewer {

namespace {

/// Windows of so many letters' heights have room for stages, quantities and layouts in one line.
constexpr float one_line_from = 84;

std::string name_of_call(const Problem& p) {
    return fmt::format("{}batch {}  heads {} (kv {})  seqlen_q {}  seqlen_kv {}  head_dim {}  tile {}x{}  {}",
                       p.direction == Direction::backward ? "backward  " : "", p.batch, p.heads, p.heads_kv,
                       p.seqlen_q, p.seqlen_kv, p.head_dim, p.block_m, p.block_n,
                       p.mask == Mask::causal ? "causal" : "no mask");
}

std::string name_of_files(const Document& document) {
    const auto tail = [](const std::string& path) {
        return one_line(std::filesystem::path(path).filename().string());
    };
    std::string name = tail(document.path);
    if (!document.other.empty()) name += " against " + tail(document.other);
    const Provenance& from = document.recording->provenance();
    if (!from.kernel.empty()) name += "   " + one_line(from.kernel);
    if (!from.device.empty()) name += " on " + one_line(from.device);
    return name;
}

void draw_verdict(App& app) {
    const Report* report = app.document->report.get();
    if (report == nullptr) {
        app.waits = !app.status.message.empty();
        text(app, app.status.message.empty() ? "not judged" : "being judged", colours::dim);
        return;
    }
    // What was judged is not what is there now.
    if (app.status.changed)
        return text(app,
                    (app.status.gone ? "before the file was removed: " : "before the file changed: ") +
                        verdict_line(*report),
                    colours::dim);
    const ImU32 colour = report->guilty             ? colours::bad
                         : report->unjudged.empty() ? colours::good
                                                    : colours::unjudged;
    text(app, verdict_line(*report), colour);
}

struct StateColour {
    StageState state;
    ImU32 colour;
};
constexpr std::array state_colours = {
    StateColour{StageState::not_captured, colours::absent},
    StateColour{StageState::not_compared, colours::dim},
    StateColour{StageState::not_judged, colours::dim},
    StateColour{StageState::not_declared, colours::dim},
    StateColour{StageState::ok, colours::text},
    StateColour{StageState::inherited, colours::inherited},
    StateColour{StageState::wrong_too, colours::bad},
    StateColour{StageState::first_wrong, colours::bad},
};

ImU32 colour_of_stage(const App& app, Stage stage) {
    if (!app.has(stage)) return colours::absent;
    const Report* report = app.document->report.get();
    if (report == nullptr || !report->stage(stage).captured) return colours::text;
    return std::ranges::find(state_colours, state_of(*report, stage), &StateColour::state)->colour;
}

void draw_stages(App& app) {
    for (const StageInfo& info : stages_of(app.problem())) {
        if (choice(std::string(info.name).c_str(), app.view.stage == info.stage,
                   colour_of_stage(app, info.stage)))
            select_stage(app, info.stage);
        const bool guilty = app.document->report != nullptr && app.document->report->guilty == info.stage;
        if (guilty) {
            const ImVec2 low = {ImGui::GetItemRectMin().x, ImGui::GetItemRectMax().y};
            ImGui::GetWindowDrawList()->AddRectFilled(low - ImVec2(0, 2), ImGui::GetItemRectMax(),
                                                      colours::bad);
        }
        // Scripts write a blank as an underscore.
        std::string place = "stage " + std::string(info.name);
        std::ranges::replace(place, '_', ' ');
        app.readout.place(place, {ImGui::GetItemRectMin().x, ImGui::GetItemRectMin().y,
                                  ImGui::GetItemRectSize().x, ImGui::GetItemRectSize().y});
        ImGui::SameLine(0, 3);
    }
}

void draw_quantities(App& app) {
    for (const QuantityInfo& info : all_quantities()) {
        // The tab of causes has them.
        if (info.of_replay) continue;
        if (info.quantity != all_quantities().front().quantity) ImGui::SameLine(0, 3);
        if (choice(std::string(info.name).c_str(), app.view.quantity == info.quantity))
            app.view.quantity = info.quantity;
    }
}

void draw_layouts(App& app) {
    for (int i = 0; i < layout_count; ++i) {
        ImGui::SameLine(0, 3);
        if (choice(std::string(to_string(Layout(i))).c_str(), app.view.layout == Layout(i)))
            app.view.layout = Layout(i);
    }
}

}  // namespace

float header_height(float width) {
    return (width < one_line_from * ImGui::GetFontSize() ? 10.6F : 6.1F) * ImGui::GetFontSize();
}

void draw_header(App& app, const Box& box) {
    const PanelScope panel(app, "header", box);
    if (app.document == nullptr) {
        text(app, "tile-view");
        text(app, "What an attention kernel computed, and where it went wrong", colours::dim);
        return;
    }
    const bool narrow = box.width < one_line_from * ImGui::GetFontSize();
    const float apart = 1.5F * ImGui::GetFontSize();
    ImGui::PushTextWrapPos(narrow ? 0 : -1);
    text(app, name_of_files(*app.document));
    if (!narrow) ImGui::SameLine(0, 2 * ImGui::GetFontSize());
    text(app, name_of_call(app.problem()), colours::dim);
    draw_verdict(app);
    ImGui::PopTextWrapPos();
    draw_stages(app);
    if (narrow) {
        ImGui::NewLine();
    } else {
        ImGui::SameLine(0, apart);
        ImGui::Dummy({0, 0});
        ImGui::SameLine(0, 3);
    }
    draw_quantities(app);
    ImGui::SameLine(0, apart);
    ImGui::Dummy({0, 0});
    draw_layouts(app);
    const std::string hint = "? help";
    const float x = box.width - ImGui::CalcTextSize(hint.c_str()).x - ImGui::GetStyle().WindowPadding.x;
    if (x > ImGui::GetItemRectMax().x - box.x + apart) {
        ImGui::SameLine(x);
        text(app, hint, colours::dim);
    }
}

}  // namespace tilescope::viewer
