#include <array>

#include "oracle/report/text.h"
#include "viewer/panels/panel.h"
#include "viewer/state/causes_state.h"

namespace tilescope::viewer {

namespace {

/// Causes that share a rank with the one before or after explain as much.
bool is_tied(const std::vector<FoundCause>& causes, std::size_t index) {
    const auto same = [&](std::size_t other) { return causes[other].rank == causes[index].rank; };
    return (index > 0 && same(index - 1)) || (index + 1 < causes.size() && same(index + 1));
}

std::string share_of(const FoundCause& cause) {
    if (cause.structural) return percent_of(cause.explained_after) + " of the places";
    return fmt::format("{} -> {}", percent_of(cause.explained_before), percent_of(cause.explained_after));
}

/// Two lines: what, and how well. `rank` is "1", or "1=" for one of several.
void draw_entry(App& app, const FoundCause& cause, const std::string& rank, std::size_t index) {
    const float em = ImGui::GetFontSize();
    const float indent = 2.2F * em;
    std::string what = headline_of(cause);
    if (cause.legal) what += ", legal if it is meant";
    std::string how = fmt::format("{}   {}   {}", stage_info(app.problem(), cause.stage).name, cause.family,
                                  share_of(cause));
    if (!cause.where.empty()) how += "   " + cause.where;
    app.readout.add(fmt::format("cause {} {}   {}", rank, what, how));

    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float room = ImGui::GetContentRegionAvail().x - indent;
    const float high = ImGui::CalcTextSize(what.c_str(), nullptr, false, room).y;
    const float low = ImGui::CalcTextSize(how.c_str(), nullptr, false, room).y;
    ImGui::PushID(int(index));
    if (ImGui::Selectable("##cause", app.view.cause == index, 0, {0, high + low + 0.2F * em}))
        choose_cause(app, index);
    ImGui::PopID();
    app.readout.place(fmt::format("cause {}", index + 1), {at.x, at.y, room + indent, high + low});
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const auto wrapped = [&](float y, const std::string& line, ImU32 colour) {
        draw.AddText(nullptr, 0, {std::round(at.x + indent), std::round(y)}, colour, line.c_str(), nullptr,
                     room);
    };
    draw.AddText(at, colours::dim, rank.c_str());
    wrapped(at.y, what, cause.legal ? colours::text : colours::bad);
    wrapped(at.y + high, how, colours::dim);
}

/// What the heatmap may show of the replay.
void draw_layers(App& app) {
    constexpr std::array layers = {Quantity::dumped, Quantity::replayed, Quantity::unexplained};
    for (const Quantity layer : layers) {
        if (layer != layers.front()) ImGui::SameLine(0, 3);
        if (choice(std::string(quantity_info(layer).name).c_str(), app.view.quantity == layer))
            app.view.quantity = layer;
    }
    text(app, "Space, held: dumped in place of replayed", colours::dim);
}

/// What the chosen one does, and where to look.
void draw_chosen(App& app, const FoundCause& cause) {
    text(app, says_of(cause));
    if (const std::string formula = formula_of(cause); !formula.empty()) text(app, formula);
    text(app, fmt::format("look at: {}", look_at_of(cause)), colours::accent);
    if (cause.structural)
        return text(app,
                    fmt::format("The pattern tells right from wrong in {} of {} elements; their values "
                                "are known to no replay.",
                                percent_of(cause.explained_after), cause.elements),
                    colours::dim);
    text(app,
         fmt::format("Of {} elements a replay without the mistake explains {}, with it {}.", cause.elements,
                     percent_of(cause.explained_before), percent_of(cause.explained_after)),
         colours::dim);
    if (cause.not_determined > 0)
        text(app, fmt::format("Of {} of them it says nothing.", cause.not_determined), colours::dim);
    draw_layers(app);
}

void draw_ties(App& app, const Diagnosis& diagnosis) {
    if (diagnosis.causes.size() < 2 || !is_tied(diagnosis.causes, 0)) return;
    std::string line = "1= explain it alike.";
    if (!diagnosis.separate_with.empty())
        line += fmt::format(" To tell them apart: tile-run record {}", diagnosis.separate_with);
    if (!diagnosis.record_next.empty())
        line += fmt::format(" To tell them apart: {}", record_text(diagnosis.record_next));
    text(app, line, colours::dim);
}

}  // namespace

void draw_causes(App& app) {
    if (app.shows_declared()) return draw_mistakes(app);
    ImGui::PushTextWrapPos(0);
    if (app.document->diagnosis != nullptr && app.document->diagnosis->suggestion)
        text(app, suggestion_text(*app.document->diagnosis->suggestion), colours::accent);
    const std::string why = why_no_causes(app);
    if (!why.empty()) {
        if (may_find_causes(app))
            text_waiting(app, why);
        else
            text(app, why, colours::dim);
        return ImGui::PopTextWrapPos();
    }
    const Diagnosis& diagnosis = *app.document->diagnosis;
    title(app, fmt::format("Causes of what diverges in {}, best first (D: next)",
                           stage_info(app.problem(), *app.document->report->guilty).name));
    std::size_t index = 0;
    for (std::size_t i = 0; i < diagnosis.causes.size(); ++i)
        draw_entry(app, diagnosis.causes[i],
                   fmt::format("{}{}", diagnosis.causes[i].rank, is_tied(diagnosis.causes, i) ? "=" : ""),
                   index++);
    draw_ties(app, diagnosis);
    if (diagnosis.threads)
        text(app,
             (diagnosis.threads->among_right_ones ? "The wrong elements, and right ones, are those of "
                                                  : "The wrong elements are those of ") +
                 diagnosis.threads->says,
             colours::dim);
    if (!diagnosis.then.empty()) title(app, "Then, beside the first");
    for (const FoundCause& cause : diagnosis.then) draw_entry(app, cause, "then", index++);
    for (const StageAnswer& answer : diagnosis.answers) {
        if (answer.stage != app.document->report->guilty)
            text(app, fmt::format("wrong too, {}: {}", stage_info(answer.stage).name, text_of(answer)),
                 colours::dim);
    }
    ImGui::Spacing();
    if (const FoundCause* cause = chosen_cause(app)) draw_chosen(app, *cause);
    ImGui::PopTextWrapPos();
}

}  // namespace tilescope::viewer
