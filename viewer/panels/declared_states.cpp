// What a state of a declared kernel held after each block at the element that is looked at, beside what it should have held.

#include <algorithm>
#include <optional>
#include <span>

#include "oracle/report/text.h"
#include "viewer/panels/panel.h"
#include "viewer/panels/words.h"
#include "viewer/state/declared_words.h"

namespace tilescope::viewer {

namespace {

/// The stage itself, or the last state before it that its formula takes; nullopt where nothing is carried.
std::optional<int> state_behind(const App& app) {
    const Program& program = app.declared.kernel().program();
    const int stage = app.declared.stage;
    if (program.array(stage).over >= 0) return stage;
    for (int i = stage - 1; i >= 0; --i) {
        const ProgramArray& array = program.array(i);
        if (array.is_stage && array.over >= 0 && reads(program, program.array(stage).value, i)) return i;
    }
    return std::nullopt;
}

/// The state after one block.
struct StateMoment {
    std::int64_t block = 0;
    std::vector<std::int64_t> index;
    StageElement element;
    double end_to_end = 0;  ///< expected of one that inherits
};

/// In the kernel's order.
std::vector<StateMoment> moments_of(const App& app, int state, const StageValues& values) {
    const ProgramCall& call = app.declared.kernel().call();
    const ProgramArray& array = call.program.array(state);
    std::vector<std::int64_t> index;
    for (const StageDim& dim : values.dims)
        index.push_back(dim.blocks ? 0 : app.declared.at[std::size_t(dim.axis)]);
    std::vector<StateMoment> moments;
    for (std::int64_t taken = 0; taken < values.dims.front().extent; ++taken) {
        index[0] = call.block_in_order(array.over, array.backwards, taken);
        const std::int64_t number = values.number_of(index);
        const StageElement element = values.at(number);
        moments.push_back({index[0], index, element,
                           element.inherits ? values.end_to_end(number).expected : element.expected});
    }
    return moments;
}

std::string dumped_text(const StageElement& element) {
    if (element.finding == ProgramFinding::not_stored) return "-";
    return nobody_wrote(element.got) ? "unwritten" : digits_of(element.got);
}

std::string times_text(const StageElement& element, Dtype dtype) {
    return text_of_value(value_of(element, Quantity::over_budget, dtype), Quantity::over_budget);
}

ImU32 colour_of_element(const StageElement& element) {
    return element.inherits                                ? colours::inherited
           : element.finding == ProgramFinding::outside    ? colours::bad
           : element.finding == ProgramFinding::not_stored ? colours::absent
                                                           : colours::text;
}

struct StateRow {
    std::string_view name;
    std::string (*text)(const StateMoment& moment, Dtype dtype);
};
constexpr std::array state_rows = {
    StateRow{"dumped", [](const StateMoment& moment, Dtype) { return dumped_text(moment.element); }},
    StateRow{"expected", [](const StateMoment& moment, Dtype) { return digits_of(moment.element.expected); }},
    StateRow{"over budget",
             [](const StateMoment& moment, Dtype dtype) { return times_text(moment.element, dtype); }},
    // Where an error is carried on.
    StateRow{"end to end",
             [](const StateMoment& moment, Dtype) {
                 return moment.element.inherits ? digits_of(moment.end_to_end) : std::string();
             }},
};

void draw_moments(App& app, int state, const std::vector<StateMoment>& moments, const StageValues& values) {
    constexpr int most_columns = 63;
    const int shown = std::min(int(moments.size()), most_columns);
    if (!ImGui::BeginTable("states", shown + 1, ImGuiTableFlags_ScrollX | ImGuiTableFlags_SizingFixedFit))
        return;
    ImGui::TableSetupScrollFreeze(1, 0);
    // What is looked at stays in sight.
    const auto here = std::ranges::find(moments, index_shown(app), &StateMoment::index) - moments.begin();
    const std::int64_t most_left = std::int64_t(moments.size()) - shown;
    const std::int64_t first = here < std::int64_t(moments.size())
                                   ? std::clamp<std::int64_t>(here - shown / 2, 0, most_left)
                                   : most_left;
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    text_of_cell(app,
                 fmt::format("after block of {}",
                             app.declared.kernel().program().axes[std::size_t(values.dims[0].axis)].name),
                 colours::dim);
    for (std::int64_t i = first; i < first + shown; ++i) {
        const StateMoment& moment = moments[std::size_t(i)];
        ImGui::TableNextColumn();
        const std::string name = fmt::format("{}", moment.block);
        const bool chosen = app.declared.stage == state && i == here;
        if (ImGui::Selectable(fmt::format("{}##moment", name).c_str(), chosen))
            go_to_declared(app, state, moment.index, true);
        const ImVec2 low = ImGui::GetItemRectMin();
        const ImVec2 size = ImGui::GetItemRectSize();
        app.readout.place("history block " + name, {low.x, low.y, size.x, size.y});
        app.readout.add(fmt::format("block {}: {} expected {}", name, dumped_text(moment.element),
                                    digits_of(moment.element.expected)));
        if (moment.element.inherits)
            app.readout.add(fmt::format("block {}: end to end {}", name, digits_of(moment.end_to_end)));
    }
    const bool inherits =
        std::ranges::any_of(moments, [](const StateMoment& m) { return m.element.inherits; });
    for (const StateRow& row : std::span(state_rows).first(state_rows.size() - (inherits ? 0 : 1))) {
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        text_of_cell(app, std::string(row.name), colours::dim);
        explain(app, row.name);
        for (std::int64_t i = first; i < first + shown; ++i) {
            const StateMoment& moment = moments[std::size_t(i)];
            ImGui::TableNextColumn();
            text_of_cell(app, row.text(moment, values.dtype), colour_of_element(moment.element));
        }
    }
    ImGui::EndTable();
}

}  // namespace

float states_height(const App& app) {
    // What is above it stays higher than it is.
    const bool is_low = ImGui::GetIO().DisplaySize.y < 46 * ImGui::GetFontSize();
    if (!app.settings.history || is_low || !state_behind(app)) return 0;
    const std::vector<StageVerdict>& verdicts = app.declared.kernel().report().stages;
    const auto verdict = std::ranges::find(verdicts, *state_behind(app), &StageVerdict::stage);
    const bool inherits = verdict != verdicts.end() && verdict->inherited > 0;
    return 2 * ImGui::GetStyle().WindowPadding.y + ImGui::GetStyle().ScrollbarSize +
           float(state_rows.size() + (inherits ? 2 : 1)) *
               (ImGui::GetTextLineHeightWithSpacing() + ImGui::GetStyle().CellPadding.y);
}

void draw_states(App& app, const Box& box) {
    const PanelScope panel(app, "history", box);
    const int state = *state_behind(app);
    const Program& program = app.declared.kernel().program();
    const auto values = ask_values(app, state);
    if (values == nullptr) {
        title(app, "History of " + program.array(state).name);
        return text(app, why_no_values(app, state), colours::dim);
    }
    const std::vector<StateMoment> moments = moments_of(app, state, *values);
    const auto wrong = std::ranges::find(moments, ProgramFinding::outside,
                                         [](const StateMoment& moment) { return moment.element.finding; });
    std::string axes;
    for (std::size_t i = 1; i < values->dims.size(); ++i)
        axes += fmt::format("{}{} {}", i > 1 ? ", " : "",
                            program.axes[std::size_t(values->dims[i].axis)].name, moments.front().index[i]);
    text(app, fmt::format("History of {}[{}]", program.array(state).name, axes));
    ImGui::SameLine(0, 2 * ImGui::GetFontSize());
    if (wrong == moments.end())
        text(app, "nothing wrong in it", colours::dim);
    else
        text(app, fmt::format("first wrong after block {}", wrong->block), colours::bad);
    draw_moments(app, state, moments, *values);
}

}  // namespace tilescope::viewer
