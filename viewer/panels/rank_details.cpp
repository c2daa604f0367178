// Beside the map of ranks: what is known of the chosen recording, and what is wrong in all of them.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "oracle/ranks/rank_report.h"
#include "oracle/ranks/run_of_ranks.h"
#include "oracle/report/card.h"
#include "viewer/panels/rank_words.h"

namespace tilescope::viewer {

namespace {

/// Of longer lists the rest is counted.
constexpr std::size_t most_listed = 200;

/// "rows 0-63, 192-255 of 256".
std::string ranges_text(std::string_view what, const Positions& positions, std::int64_t whole) {
    if (positions.empty()) return fmt::format("{} 0-{}", what, whole - 1);
    std::string text;
    for (const PositionRange& range : positions) {
        text += fmt::format("{}{}-{}", text.empty() ? "" : ", ", range.first, range.last());
        if (range.stride > 1) text += fmt::format(" by {}", range.stride);
    }
    return fmt::format("{} {} of {}", what, text, whole);
}

struct StageLine {
    std::string name;
    std::string word;
    ImU32 colour = colours::text;
    const StageTally* tally = nullptr;
};

ImU32 colour_of(const StageTally& tally) {
    return tally.diverges() ? colours::bad : tally.inherited > 0 ? colours::inherited : colours::dim;
}

/// Of what was held against other recordings, then of its own tiles.
std::vector<StageLine> stage_lines(const RankPart& part) {
    std::vector<StageLine> lines;
    for (const PartStage& stage : part.stages) {
        const char* const word = stage.tally.diverges()     ? "wrong"
                                 : stage.tally.compared > 0 ? "right"
                                                            : "not judged";
        lines.push_back({stage.name + (stage.arrived ? " as it arrived" : ""), word, colour_of(stage.tally),
                         &stage.tally});
    }
    // The report of what is there at the end is of what stands above already.
    if (!part.report || part.shard.kind == ShardKind::final) return lines;
    for (const ChainLink& link : chain_of(*part.report)) {
        const StageReport& stage = part.report->stage(link.stage);
        if (stage.captured && stage.tally.compared > 0)
            lines.push_back({std::string(stage_info(part.report->problem, link.stage).name), link.word,
                             colour_of(stage.tally), &stage.tally});
    }
    return lines;
}

std::string share_of_budget(const StageTally& tally) {
    const bool is_wrong = tally.diverges() && !tally.worst.empty();
    return quotient_text(is_wrong ? tally.worst.front().ratio() : tally.budget_used);
}

void draw_stage_table(App& app, const std::vector<StageLine>& lines) {
    if (lines.empty() || !ImGui::BeginTable("stages", 5, ImGuiTableFlags_SizingStretchProp)) return;
    for (const char* heading : {"stage", "", "compared", "outside", "over budget"})
        ImGui::TableSetupColumn(heading);
    ImGui::TableHeadersRow();
    for (const StageLine& line : lines) {
        const std::string cells[] = {line.name, line.word, fmt::format("{}", line.tally->compared),
                                     fmt::format("{}", line.tally->outside), share_of_budget(*line.tally)};
        ImGui::TableNextRow();
        for (const std::string& cell : cells) {
            ImGui::TableNextColumn();
            text_of_cell(app, cell, &cell == &cells[0] ? colours::text : line.colour);
        }
        app.readout.add(fmt::format("{} {} {} {} {}", cells[0], cells[1], cells[2], cells[3], cells[4]));
    }
    ImGui::EndTable();
}

void draw_fault(App& app, const RankFault& fault) {
    std::string where = fault.stage;
    if (!fault.place.empty()) where += ", " + fault.place;
    if (!fault.values.empty()) where += ": " + fault.values;
    wrapped(app, where, colours::bad);
    if (fault.cause.empty())
        wrapped(app, fmt::format("{}{}{}", why_unnamed(fault), fault.says.empty() ? "" : "; ", fault.says));
    else
        wrapped(app, fault.cause + ": " + fault.says);
    if (!fault.look_at.empty()) wrapped(app, "look at: " + fault.look_at, colours::accent);
}

void draw_part(App& app, std::size_t index) {
    const RunDocument& run = *app.ranks.run;
    const Shard& shard = run.shards[index];
    text(app, one_line(run.paths[index]), colours::dim);
    wrapped(app, ranges_text("rows", shard.q_positions, run.whole.seqlen_q), colours::dim);
    if (shard.is_merged())
        wrapped(app, ranges_text("keys", shard.kv_positions, run.whole.seqlen_kv), colours::dim);
    if (run.report == nullptr) return;
    const RankPart& part = run.report->parts[index];
    for (const RankFault& fault : run.report->faults)
        if (fault.part == index) draw_fault(app, fault);
    if (!part.unjudged.empty()) wrapped(app, "not judged: " + one_line(part.unjudged), colours::unjudged);
    ImGui::Spacing();
    draw_stage_table(app, stage_lines(part));
}

void list_faults(App& app, const RankReport& report) {
    title(app, fmt::format("Wrong by themselves: {}", report.faults.size()));
    for (std::size_t i = 0; i < std::min(report.faults.size(), most_listed); ++i) {
        const RankFault& fault = report.faults[i];
        const std::string line = fmt::format("{}  {}  {}", text_of_part(report.parts[fault.part].shard),
                                             fault.stage, fault.cause.empty() ? "unexplained" : fault.cause);
        app.readout.add(line);
        if (selectable(app, line, fmt::format("fault {}", i), chosen_part(app) == fault.part))
            choose_part(app, fault.part);
        const ImVec2 low = ImGui::GetItemRectMin();
        const ImVec2 size = ImGui::GetItemRectSize();
        app.readout.place(fmt::format("fault {}", i), {low.x, low.y, size.x, size.y});
    }
    if (report.faults.size() > most_listed)
        text(app, fmt::format("and {} more", report.faults.size() - most_listed), colours::dim);
}

void list_unjudged(App& app, const RunDocument& run) {
    std::vector<std::string> lines = run.beside;
    if (run.report != nullptr)
        lines.insert(lines.begin(), run.report->missing.begin(), run.report->missing.end());
    if (lines.empty()) return;
    ImGui::Spacing();
    title(app, "Not judged");
    for (std::size_t i = 0; i < std::min(lines.size(), most_listed); ++i)
        wrapped(app, one_line(lines[i]), colours::unjudged);
    if (lines.size() > most_listed)
        text(app, fmt::format("and {} more", lines.size() - most_listed), colours::dim);
}

}  // namespace

void draw_rank_part(App& app, const Box& box) {
    const PanelScope panel(app, "rank part", box);
    const RankCell& cell = app.ranks.cell;
    const CellLine state = state_line(app, cell);
    text(app, title_of(*app.ranks.run, cell));
    ImGui::SameLine(0, ImGui::GetFontSize());
    text(app, state.words, state.colour);
    if (const auto part = chosen_part(app)) draw_part(app, *part);
}

void draw_rank_faults(App& app, const Box& box) {
    const PanelScope panel(app, "rank faults", box);
    const RunDocument& run = *app.ranks.run;
    if (run.report == nullptr)
        text(app, app.status.message.empty() ? "not judged" : "being judged", colours::dim);
    else if (run.report->faults.empty())
        text(app, run.report->unjudged.empty() ? "nothing is wrong" : "nothing of what was judged is wrong",
             colours::dim);
    else
        list_faults(app, *run.report);
    list_unjudged(app, run);
}

}  // namespace tilescope::viewer
