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
#include "viewer/panels/words.h"

namespace tilescope::viewer {

namespace {

std::string name_of_call(const Problem& p) {
    return fmt::format("{}batch {}  heads {} (kv {})  seqlen_q {}  seqlen_kv {}  head_dim {}  tile {}x{}  {}",
                       p.direction == Direction::backward ? "backward  " : "", p.batch, p.heads, p.heads_kv,
                       p.seqlen_q, p.seqlen_kv, p.head_dim, p.block_m, p.block_n,
                       p.mask == Mask::causal ? "causal" : "no mask");
}

std::string name_of_files(const Document& document, const Watch& watch) {
    const auto tail = [](const std::string& path) {
        return one_line(std::filesystem::path(path).filename().string());
    };
    std::string name = tail(document.path);
    if (!document.other.empty()) name += " against " + tail(document.other);
    // Another one may have been opened meanwhile.
    if (watch.shown < watch.recordings.size() && watch.recordings[watch.shown] == document.path)
        name += fmt::format("   {} of {} in {}", watch.shown + 1, watch.recordings.size(),
                            one_line(watch.folder));
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
    bool cut = false;    ///< to one line, in place of wrapped
};

CausesKnown causes_known(const App& app) {
    if (app.document->pair() || app.document->diagnosis != nullptr) return CausesKnown::yes;
    return app.status.searching ? CausesKnown::not_yet : CausesKnown::no;
}

/// What is wrong, and why; then what tile-diff ends with.
std::vector<CardLine> card_lines(const App& app) {
    const Report* report = app.document->report.get();
    if (report == nullptr)
        return {
            {app.status.message.empty() ? "not judged: it was cancelled, F5 judges again" : "being judged",
             colours::dim}};
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
    if (!card.threads.empty()) lines.push_back({card.threads, colours::text, true});
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
            height += ImGui::CalcTextSize(line.words.c_str(), nullptr, false, line.cut ? -1 : room).y +
                      ImGui::GetStyle().ItemSpacing.y;
        show(line, beside);
        used = beside ? used + gap + alone : std::min(alone, room);
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
    HeaderLines lines{{{name_of_files(*app.document, app.watch), colours::text, false, false, true},
                       {name_of_call(app.problem()), colours::dim, true, true}},
                      ""};
    for (CardLine& line : card_lines(app)) lines.shown.push_back(std::move(line));
    const float room = ImGui::GetIO().DisplaySize.y / 3 - controls_height(app, width);
    while (lay_out(lines.shown, width, [](const CardLine&, bool) {}) > room) {
        const auto last = std::ranges::find(lines.shown.rbegin(), lines.shown.rend(), true, &CardLine::spare);
        if (last == lines.shown.rend()) break;
        lines.under_pointer = last->words + (lines.under_pointer.empty() ? "" : "\n") + lines.under_pointer;
        lines.shown.erase(std::next(last).base());
    }
    return lines;
}

}  // namespace

float header_height(const App& app, float width) {
    const float padding = 2 * ImGui::GetStyle().WindowPadding.y;
    if (app.document == nullptr) return padding + 2 * ImGui::GetTextLineHeightWithSpacing();
    return padding + lay_out(header_lines(app, width).shown, width, [](const CardLine&, bool) {}) +
           controls_height(app, width);
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
        if (line.cut) ImGui::PushTextWrapPos(-1);
        text(app, line.words, line.colour);
        if (line.cut) ImGui::PopTextWrapPos();
        if (!lines.under_pointer.empty() && ImGui::IsItemHovered()) tooltip(app, lines.under_pointer);
    });
    ImGui::PopTextWrapPos();

    draw_controls(app, box.width);
}

}  // namespace tilescope::viewer
