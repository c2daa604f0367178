#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracle/ranks/rank_report.h"
#include "oracle/ranks/run_of_ranks.h"
#include "oracle/report/card.h"
#include "oracle/report/text.h"
#include "viewer/panels/panel.h"
#include "viewer/panels/rank_words.h"
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
    const Shard& shard = document.problem().shard;
    if (shard.is_part() && !document.of_run)
        name += fmt::format("   {} of {} ranks", text_of_part(shard), shard.ranks);
    const Provenance& from = document.recording->provenance();
    if (!from.kernel.empty()) name += "   " + one_line(from.kernel);
    if (!from.device.empty()) name += " on " + one_line(from.device);
    return name;
}

std::string name_of_run(const RunDocument& run) {
    return fmt::format("{}   {} ranks, {} recordings", viewer::name_of(run.folder), run.ranks,
                       run.paths.size());
}

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

/// "k of rank 1, step 1 is wrong: what was sent stopped half way".
std::string headline_of(const RankReport& report) {
    const RankFault& first = report.faults.front();
    const std::string where = text_of_part(report.parts[first.part].shard);
    const std::string why = first.says.empty() ? std::string(why_unnamed(first)) : first.says;
    return fmt::format("{} of {} is wrong first: {}", first.stage, where, why);
}

std::vector<CardLine> lines_of_report(const RankReport& report) {
    if (!report.diverges())
        return {{verdict_line(report), report.unjudged.empty() ? colours::good : colours::unjudged}};
    const RankFault& first = report.faults.front();
    std::vector<CardLine> lines = {{headline_of(report), colours::bad}};
    if (!first.look_at.empty()) lines.push_back({"look at: " + first.look_at, colours::accent});
    if (!first.cause.empty()) lines.push_back({"cause: " + first.cause, colours::dim, true});
    lines.push_back({verdict_line(report), colours::dim, false, true});
    return lines;
}

/// What is wrong first in the run, and why; then what is not judged.
std::vector<CardLine> run_lines(const App& app) {
    const RunDocument& run = *app.ranks.run;
    if (!run.refused.empty()) return {{run.refused, colours::bad}};
    if (run.report == nullptr)
        return {
            {app.run_session.status().idle ? "not judged: it was cancelled, F5 judges again" : "being judged",
             colours::dim}};
    std::vector<CardLine> lines = lines_of_report(*run.report);
    std::vector<std::string> missing = run.report->missing;
    // It is in the verdict.
    if (!run.report->diverges() && !missing.empty()) missing.erase(missing.begin());
    missing.insert(missing.end(), run.beside.begin(), run.beside.end());
    if (!missing.empty())
        lines.push_back(
            {fmt::format("not judged: {}{}", one_line(missing.front()),
                         missing.size() > 1 ? fmt::format("; and {} more", missing.size() - 1) : ""),
             colours::unjudged});
    return lines;
}

/// Whether the run explains what diverges first in the recording on screen: it is what arrived.
bool is_wrong_as_it_arrived(const App& app) {
    const std::optional<std::size_t> part = part_on_screen(app);
    const Report* report = app.document->report.get();
    if (!part || app.ranks.run->report == nullptr || report == nullptr || !report->guilty) return false;
    const RankFault* fault = fault_of(*app.ranks.run->report, *part);
    if (fault == nullptr || fault->stage != stage_info(report->problem, *report->guilty).name) return false;
    const std::vector<PartStage>& stages = app.ranks.run->report->parts[*part].stages;
    const auto stage = std::ranges::find(stages, fault->stage, &PartStage::name);
    return stage != stages.end() && stage->arrived;
}

/// Of a recording that was opened from a run: where it stands there, and what the run says of it.
std::vector<CardLine> lines_of_part(const App& app) {
    const std::optional<std::size_t> part = part_on_screen(app);
    if (!part) return {};
    const RunDocument& run = *app.ranks.run;
    std::string line = fmt::format("{} of {}", text_of_part(run.shards[*part]), viewer::name_of(run.folder));
    const RankFault* fault = run.report != nullptr ? fault_of(*run.report, *part) : nullptr;
    if (fault == nullptr) return {{line, colours::dim}};
    line += fmt::format(": {} is wrong", fault->stage);
    if (!fault->place.empty()) line += ", first at " + fault->place;
    if (!fault->says.empty()) line += ": " + fault->says;
    std::vector<CardLine> lines = {{line, colours::bad}};
    if (!fault->look_at.empty()) lines.push_back({"look at: " + fault->look_at, colours::accent});
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

std::vector<CardLine> whole_header(const App& app) {
    if (app.shows_declared()) return declared_lines(app);
    const bool of_run = app.ranks.shown;
    const std::string name = of_run ? name_of_run(*app.ranks.run) : name_of_files(*app.document, app.watch);
    std::vector<CardLine> lines = {
        {name, colours::text, false, false, true},
        {name_of_call(of_run ? app.ranks.run->whole : app.problem()), colours::dim, true, true}};
    if (!of_run)
        for (CardLine& line : lines_of_part(app)) lines.push_back(std::move(line));
    // What arrived wrong is explained by the run alone.
    const bool is_explained = !of_run && is_wrong_as_it_arrived(app);
    for (CardLine& line : of_run ? run_lines(app) : card_lines(app))
        if (!is_explained || (line.spare && !line.beside)) lines.push_back(std::move(line));
    return lines;
}

/// The lines of the whole header's text. A wide window has the file and the call beside each other; what does not fit into a third of
/// the window's height is left to `under_pointer`, one line each.
struct HeaderLines {
    std::vector<CardLine> shown;
    std::string under_pointer;
};

HeaderLines header_lines(const App& app, float width) {
    HeaderLines lines{whole_header(app), ""};
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
    if (!app.shows_anything()) return padding + 2 * ImGui::GetTextLineHeightWithSpacing();
    return padding + lay_out(header_lines(app, width).shown, width, [](const CardLine&, bool) {}) +
           controls_height(app, width);
}

void draw_header(App& app, const Box& box) {
    const PanelScope panel(app, "header", box);
    if (!app.shows_anything()) {
        text(app, "tile-view");
        text(app, "What a kernel computed, and where it went wrong", colours::dim);
        return;
    }
    if (app.shows_recording() && app.document->report == nullptr)
        app.waits = app.waits || !app.status.message.empty();
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
