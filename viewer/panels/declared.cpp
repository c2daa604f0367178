// Beside the picture of a declared stage: the card, the worst elements, an element, and what explains what is wrong.

#include <algorithm>
#include <array>
#include <cmath>

#include "oracle/report/text.h"
#include "viewer/panels/panel.h"
#include "viewer/panels/words.h"
#include "viewer/state/declared_words.h"

namespace tilescope::viewer {

namespace {

/// As ProgramFinding counts.
struct FindingWord {
    std::string_view word;
    ImU32 colour;
};
constexpr std::array finding_words = {
    FindingWord{"not stored", colours::dim},
    FindingWord{"left out, as the kernel may", colours::dim},
    FindingWord{"nothing can be expected", colours::text},
    FindingWord{"not judged: the tolerance tells nothing", colours::dim},
    FindingWord{"match", colours::text},
    FindingWord{"outside", colours::bad},
};

FindingWord word_of_element(const StageElement& element) {
    if (element.inherits) return {"inherited", colours::inherited};
    const Judged found = judged(element);
    if (is_divergence(found.finding)) return {to_string(found.finding), colours::bad};
    return finding_words[static_cast<std::size_t>(element.finding)];
}

std::string value_text(const StageElement& element, Quantity quantity, Dtype dtype) {
    return text_of_value(value_of(element, quantity, dtype), quantity);
}

void describe(App& app, const StageValues& values, std::int64_t number) {
    const StageElement element = values.at(number);
    const Dtype dtype = values.dtype;
    const FindingWord found = word_of_element(element);
    const bool is_stored = element.finding != ProgramFinding::not_stored;
    value_line(app, "finding", std::string(found.word), found.colour);
    if (is_stored)
        value_line(app, "dumped", nobody_wrote(element.got) ? "no thread wrote it" : digits_of(element.got));
    value_line(app, app.view.against == Reference::end_to_end ? "end to end" : "expected",
               expected_text(dtype, element.expected, element.tolerance));
    if (element.inherits) {
        const InheritedElement& whole = values.end_to_end(number);
        value_line(app, "end to end", expected_text(dtype, whole.expected, whole.tolerance),
                   colours::inherited);
    }
    if (!is_stored || element.finding == ProgramFinding::left_out) return;
    value_line(app, "difference", value_text(element, Quantity::difference, dtype));
    value_line(app, "over budget", value_text(element, Quantity::over_budget, dtype), found.colour);
    value_line(app, "ulps", value_text(element, Quantity::ulps, dtype));
    value_line(app, quantity_info(Quantity::relative).name, value_text(element, Quantity::relative, dtype));
}

/// "n,m, block of k", as coordinates count.
std::string names_of_coordinates(const App& app) {
    const Program& program = app.declared.kernel().program();
    std::string names;
    std::string block;
    for (const StageDim& dim : dims_shown(app)) {
        const std::string& axis = program.axes[std::size_t(dim.axis)].name;
        if (dim.blocks)
            block = "block of " + axis;
        else
            names += (names.empty() ? "" : ",") + axis;
    }
    return names + (names.empty() || block.empty() ? "" : ", ") + block;
}

void draw_worst_row(App& app, const StageValues& values, int row, bool has_values) {
    const std::int64_t number = values.worst[std::size_t(row)];
    const std::vector<std::int64_t> index = values.index_of(number);
    const StageElement element = values.at(number);
    const std::string place = declared_coordinates(app, index);
    const std::string got = nobody_wrote(element.got) ? "unwritten" : short_number(element.got);
    const std::string over = value_text(element, Quantity::over_budget, values.dtype);
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    const bool is_here = number == values.number_of(index_shown(app));
    if (ImGui::Selectable((place + "##worst").c_str(), is_here, ImGuiSelectableFlags_SpanAllColumns))
        go_to_declared(app, app.declared.stage, index, true);
    const ImVec2 low = ImGui::GetItemRectMin();
    const ImVec2 size = ImGui::GetItemRectSize();
    app.readout.place(fmt::format("worst {}", row), {low.x, low.y, size.x, size.y});
    if (has_values) {
        ImGui::TableNextColumn();
        text_of_cell(app, got, colours::dim);
    }
    ImGui::TableNextColumn();
    text_of_cell(app, over, colours::bad);
    app.readout.add(fmt::format("worst {} {} {}", place, got, over));
}

void list_worst(App& app, const StageValues& values) {
    // A narrow panel keeps the places.
    const float letter = ImGui::CalcTextSize("0").x;
    const bool has_values = ImGui::GetContentRegionAvail().x > 36 * letter;
    if (!ImGui::BeginTable("worst", has_values ? 3 : 2, ImGuiTableFlags_ScrollY)) return;
    ImGui::TableSetupScrollFreeze(0, 1);
    ImGui::TableSetupColumn(names_of_coordinates(app).c_str(), ImGuiTableColumnFlags_WidthStretch);
    if (has_values) ImGui::TableSetupColumn("dumped", ImGuiTableColumnFlags_WidthFixed, 10 * letter);
    ImGui::TableSetupColumn("over budget", ImGuiTableColumnFlags_WidthFixed, 11 * letter);
    ImGui::TableHeadersRow();
    ImGuiListClipper clipper;
    clipper.Begin(int(values.worst.size()));
    while (clipper.Step())
        for (int row = clipper.DisplayStart; row < clipper.DisplayEnd; ++row)
            draw_worst_row(app, values, row, has_values);
    ImGui::EndTable();
}

void draw_mistake(App& app, const MistakeWords& mistake, bool alone) {
    wrapped(app,
            (!alone               ? "one of these: "
             : mistake.is_perhaps ? "perhaps: "
                                  : "instead: ") +
                mistake.instead,
            colours::bad);
    if (!mistake.says.empty()) wrapped(app, "it " + mistake.says);
    if (!mistake.look_at.empty()) wrapped(app, "look at: " + mistake.look_at, colours::accent);
    wrapped(app, mistake.evidence, colours::dim);
    ImGui::Spacing();
}

}  // namespace

std::string name_of_recording(const App& app) {
    const Document& document = *app.declared.document;
    const Provenance& from = document.declared->recording.provenance;
    std::string name = viewer::name_of(document.path);
    const Watch& watch = app.watch;
    if (watch.shown < watch.recordings.size() && watch.recordings[watch.shown] == document.path)
        name += fmt::format("   {} of {} in {}", watch.shown + 1, watch.recordings.size(),
                            one_line(watch.folder));
    if (!from.kernel.empty()) name += "   " + one_line(from.kernel);
    if (!from.device.empty()) name += " on " + one_line(from.device);
    return name;
}

std::vector<CardLine> declared_lines(const App& app) {
    const Document& document = *app.declared.document;
    const DeclaredKernel& kernel = *document.declared;
    std::vector<CardLine> lines = {{name_of_recording(app), colours::text, false, false, true},
                                   {"declared   " + extents_text(kernel.call()), colours::dim, true, true}};
    const std::string verdict = verdict_line(kernel.program(), kernel.report());
    // What was judged is not what is there now.
    if (app.status.changed) {
        lines.push_back(
            {(app.status.gone ? "before the file was removed: " : "before the file changed: ") + verdict,
             colours::dim});
        return lines;
    }
    const bool is_wrong = kernel.report().first_wrong >= 0;
    lines.push_back({declared_headline(app), is_wrong ? colours::bad : colours::good});
    const std::vector<MistakeWords> mistakes = mistakes_of(document);
    if (!mistakes.empty()) {
        if (!mistakes.front().look_at.empty())
            lines.push_back({"look at: " + mistakes.front().look_at, colours::accent});
        lines.push_back({mistakes.front().evidence, colours::dim, true, true});
    }
    if (is_wrong) lines.push_back({verdict, colours::dim, false, true});
    if (is_wrong && kernel.report().first_wrong_end_to_end != kernel.report().first_wrong)
        lines.push_back({end_to_end_line(kernel.program(), kernel.report()), colours::dim, true, true});
    return lines;
}

void draw_worst(App& app, const Box& box) {
    const PanelScope panel(app, "bad rows", box);
    const auto values = ask_values(app, app.declared.stage);
    const std::string& name = app.declared.array().name;
    if (values != nullptr && values->map.picture != nullptr) draw_sheet_map(app, *values, 0.45F * box.height);
    const bool whole = app.view.against == Reference::end_to_end;
    title(app, fmt::format("Worst elements of {}{}", name, whole ? ", end to end" : ""));
    if (values == nullptr) return wrapped(app, why_no_values(app, app.declared.stage), colours::dim);
    if (values->worst.empty()) {
        const bool is_stored =
            state_of(app.declared.kernel(), app.declared.stage) != DeclaredState::not_stored;
        return wrapped(app, is_stored ? "nothing of it is outside its tolerance" : "it was not stored",
                       colours::dim);
    }
    list_worst(app, *values);
}

void draw_declared_element(App& app, const Box& box) {
    const PanelScope panel(app, "element", box);
    const bool pointed = app.declared.hovered.has_value() && app.pointer_leads;
    const std::vector<std::int64_t> index = pointed ? index_at(app, *app.declared.hovered) : index_shown(app);
    title(app, pointed ? "Element under the pointer" : "Element");
    wrapped(app, declared_place(app, index));
    ImGui::Spacing();
    const auto values = ask_values(app, app.declared.stage);
    if (values == nullptr) return wrapped(app, why_no_values(app, app.declared.stage), colours::dim);
    describe(app, *values, values->number_of(index));
}

void draw_mistakes(App& app) {
    const DeclaredKernel& kernel = app.declared.kernel();
    const std::string why = why_no_mistakes(app);
    title(app, kernel.report().first_wrong < 0
                   ? "What explains it"
                   : "What explains " + kernel.program().array(kernel.report().first_wrong).name);
    if (!why.empty()) {
        if (app.status.searching) app.waits = true;
        return wrapped(app, why, colours::dim);
    }
    const std::vector<MistakeWords> mistakes = mistakes_of(*app.declared.document);
    std::string declared;
    for (const MistakeWords& mistake : mistakes) {
        if (declared != mistake.declared) wrapped(app, "declared: " + mistake.declared, colours::dim);
        declared = mistake.declared;
        draw_mistake(app, mistake, mistakes.size() == 1);
    }
    const FoundMistakes& found = *app.declared.document->mistakes;
    if (found.besides)
        wrapped(app, fmt::format(
                         "besides: {} is no number where {}: nobody wrote it, or it was made of what is none",
                         kernel.program().array(found.besides->stage).name, found.besides->where));
    if (found.is_cut_off) wrapped(app, "the search for a formula that explains it was cut off", colours::dim);
}

}  // namespace tilescope::viewer
