#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracle/report/card.h"
#include "oracle/report/text.h"
#include "viewer/panels/panel.h"

namespace tilescope::viewer {

namespace {

/// Between stages, quantities and layouts, and between the buttons of each, in pixels.
float apart() {
    return 1.5F * ImGui::GetFontSize();
}
constexpr float between = 3;

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

/// A line of the card, and whether it stands beside the one before where there is room.
struct CardLine {
    std::string words;
    ImU32 colour = colours::text;
    bool beside = false;
    bool spare = false;  ///< shown by a low window under the pointer alone
};

CausesKnown causes_known(const App& app) {
    if (app.document->pair() || app.document->diagnosis != nullptr) return CausesKnown::yes;
    return app.status.searching ? CausesKnown::not_yet : CausesKnown::no;
}

/// What is wrong, and why; then what tile-diff ends with.
std::vector<CardLine> card_lines(const App& app) {
    const Report* report = app.document->report.get();
    if (report == nullptr)
        return {{app.status.message.empty() ? "not judged" : "being judged", colours::dim}};
    // What was judged is not what is there now.
    if (app.status.changed)
        return {{(app.status.gone ? "before the file was removed: " : "before the file changed: ") +
                     verdict_line(*report),
                 colours::dim}};
    const Diagnosis none;
    const Card card = card_of(*report, app.document->diagnosis != nullptr ? *app.document->diagnosis : none,
                              causes_known(app));
    const ImU32 colour = report->guilty             ? colours::bad
                         : report->unjudged.empty() ? colours::good
                                                    : colours::unjudged;
    std::vector<CardLine> lines = {{card.headline, colour}};
    if (!card.look_at.empty()) lines.push_back({"look at: " + card.look_at, colours::accent});
    if (!card.evidence.empty()) lines.push_back({card.evidence, colours::dim, true, true});
    if (!card.also.empty()) lines.push_back({card.also, colours::dim, true, true});
    if (report->guilty) lines.push_back({verdict_line(*report), colours::dim, false, true});
    return lines;
}

/// Shows each line, wrapped, with `show(line, beside)`; returns their height.
template <class Show>
float lay_out(const std::vector<CardLine>& lines, float width, const Show& show) {
    const float room = width - 2 * ImGui::GetStyle().WindowPadding.x;
    const float gap = 2 * ImGui::GetFontSize();
    float height = 0;
    float used = room;
    for (const CardLine& line : lines) {
        const float alone = ImGui::CalcTextSize(line.words.c_str()).x;
        const bool beside = line.beside && used + gap + alone <= room;
        if (!beside)
            height += ImGui::CalcTextSize(line.words.c_str(), nullptr, false, room).y +
                      ImGui::GetStyle().ItemSpacing.y;
        show(line, beside);
        used = beside ? used + gap + alone : alone;
    }
    return height;
}

/// The lines of the whole header's text. A wide window has the file and the call beside each other; what does not fit into a third of
/// the window's height is left to `under_pointer`, one line each.
struct HeaderLines {
    std::vector<CardLine> shown;
    std::string under_pointer;
};

HeaderLines header_lines(const App& app, float width) {
    HeaderLines lines{{{name_of_files(*app.document), colours::text},
                       {name_of_call(app.problem()), colours::dim, true, true}},
                      ""};
    for (CardLine& line : card_lines(app)) lines.shown.push_back(std::move(line));
    const float room = ImGui::GetIO().DisplaySize.y / 3 - 2 * ImGui::GetFrameHeightWithSpacing();
    while (lay_out(lines.shown, width, [](const CardLine&, bool) {}) > room) {
        const auto last = std::ranges::find(lines.shown.rbegin(), lines.shown.rend(), true, &CardLine::spare);
        if (last == lines.shown.rend()) break;
        lines.under_pointer = last->words + (lines.under_pointer.empty() ? "" : "\n") + lines.under_pointer;
        lines.shown.erase(std::next(last).base());
    }
    return lines;
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

float width_of_button(std::string_view label) {
    return ImGui::CalcTextSize(label.data(), label.data() + label.size()).x +
           2 * ImGui::GetStyle().FramePadding.x;
}

/// A stage of the chain, with its word where there is a report.
struct StageCell {
    StageInfo info;
    ChainLink link;
    float width = 0;
};

std::vector<StageCell> cells_of(const App& app, bool words) {
    std::vector<ChainLink> chain;
    if (words && app.document->report != nullptr) chain = chain_of(*app.document->report);
    std::vector<StageCell> cells;
    for (const StageInfo& info : stages_of(app.problem())) {
        StageCell cell{info, {}, width_of_button(info.name)};
        const auto link = std::ranges::find(chain, info.stage, &ChainLink::stage);
        if (link != chain.end()) {
            cell.link = *link;
            cell.width = std::max(cell.width, ImGui::CalcTextSize(link->word.c_str()).x + 2 * between);
        }
        cells.push_back(std::move(cell));
    }
    return cells;
}

float width_of(const std::vector<StageCell>& cells) {
    float width = 0;
    for (const StageCell& cell : cells) width += cell.width + between;
    return width;
}

/// Where the controls under the text are.
struct Controls {
    std::vector<StageCell> stages;
    bool words = false;    ///< under the stages
    bool one_row = false;  ///< stages, quantities and layouts beside each other

    float height() const {
        const ImGuiStyle& style = ImGui::GetStyle();
        return ImGui::GetFrameHeight() * (one_row ? 1 : 2) + (one_row ? 0 : style.ItemSpacing.y) +
               (words ? ImGui::GetFontSize() + 1 : 0);
    }
};

float width_of_choices() {
    float width = apart();
    for (const QuantityInfo& info : all_quantities())
        if (!info.of_replay) width += width_of_button(info.name) + between;
    for (int i = 0; i < layout_count; ++i) width += width_of_button(to_string(Layout(i))) + between;
    return width;
}

Controls controls_for(const App& app, float width) {
    const float room = width - 2 * ImGui::GetStyle().WindowPadding.x;
    Controls controls;
    controls.stages = cells_of(app, true);
    controls.words = app.document->report != nullptr && width_of(controls.stages) <= room;
    if (!controls.words) controls.stages = cells_of(app, false);
    controls.one_row = width_of(controls.stages) + apart() + width_of_choices() <= room;
    return controls;
}

void draw_stage(App& app, const StageCell& cell) {
    const ImU32 colour = colour_of_stage(app, cell.info.stage);
    if (choice(std::string(cell.info.name).c_str(), app.view.stage == cell.info.stage, colour, cell.width))
        select_stage(app, cell.info.stage);
    const ImVec2 low = ImGui::GetItemRectMin();
    const ImVec2 high = ImGui::GetItemRectMax();
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    if (app.document->report != nullptr && app.document->report->guilty == cell.info.stage)
        draw.AddRectFilled({low.x, high.y - 2}, high, colours::bad);
    if (!cell.link.word.empty()) {
        if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", cell.link.says.c_str());
        app.readout.add(fmt::format("{} {}", cell.info.name, cell.link.word));
        const float width = ImGui::CalcTextSize(cell.link.word.c_str()).x;
        draw.AddText({std::round((low.x + high.x - width) / 2), high.y + 1},
                     colour == colours::text ? colours::dim : colour, cell.link.word.c_str());
    }
    // Scripts write a blank as an underscore.
    std::string place = "stage " + std::string(cell.info.name);
    std::ranges::replace(place, '_', ' ');
    app.readout.place(place, {low.x, low.y, high.x - low.x, high.y - low.y});
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

float header_height(const App& app, float width) {
    const float padding = 2 * ImGui::GetStyle().WindowPadding.y;
    if (app.document == nullptr) return padding + 2 * ImGui::GetTextLineHeightWithSpacing();
    return padding + lay_out(header_lines(app, width).shown, width, [](const CardLine&, bool) {}) +
           controls_for(app, width).height();
}

void draw_header(App& app, const Box& box) {
    const PanelScope panel(app, "header", box);
    if (app.document == nullptr) {
        text(app, "tile-view");
        text(app, "What an attention kernel computed, and where it went wrong", colours::dim);
        return;
    }
    if (app.document->report == nullptr) app.waits = app.waits || !app.status.message.empty();
    ImGui::PushTextWrapPos(0);
    const HeaderLines lines = header_lines(app, box.width);
    lay_out(lines.shown, box.width, [&](const CardLine& line, bool beside) {
        if (beside) ImGui::SameLine(0, 2 * ImGui::GetFontSize());
        text(app, line.words, line.colour);
        if (!lines.under_pointer.empty() && ImGui::IsItemHovered())
            ImGui::SetTooltip("%s", lines.under_pointer.c_str());
    });
    ImGui::PopTextWrapPos();

    const Controls controls = controls_for(app, box.width);
    const float top = ImGui::GetCursorPosY();
    for (const StageCell& cell : controls.stages) {
        draw_stage(app, cell);
        ImGui::SameLine(0, between);
    }
    if (controls.one_row) {
        ImGui::SameLine(0, apart() + between);
    } else {
        ImGui::NewLine();
        ImGui::SetCursorPosY(top + controls.height() - ImGui::GetFrameHeight());
    }
    draw_quantities(app);
    ImGui::SameLine(0, apart());
    ImGui::Dummy({0, 0});
    draw_layouts(app);
    const std::string hint = "? help";
    const float x = box.width - ImGui::CalcTextSize(hint.c_str()).x - ImGui::GetStyle().WindowPadding.x;
    if (x > ImGui::GetItemRectMax().x - box.x + apart()) {
        ImGui::SameLine(x);
        text(app, hint, colours::dim);
    }
}

}  // namespace tilescope::viewer
