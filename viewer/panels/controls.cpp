// The chain of stages, and what of them is shown: buttons in as many lines as the window asks for.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracle/report/card.h"
#include "viewer/panels/panel.h"
#include "viewer/panels/words.h"
#include "viewer/state/commands.h"
#include "viewer/state/declared_words.h"
#include "viewer/state/selection.h"

namespace tilescope::viewer {

namespace {

/// Between the buttons of a group, in pixels.
constexpr float between = 3;

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

/// As DeclaredState counts.
constexpr std::array declared_colours = {colours::text,      colours::absent, colours::dim,
                                         colours::inherited, colours::bad,    colours::bad};

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

/// A stage of the chain, with its word where it was judged.
struct StageCell {
    int number = 0;  ///< a Stage, or an array of a program
    std::string name;
    ImU32 colour = colours::text;
    bool chosen = false;
    bool guilty = false;
    std::string word{};
    std::string says{};
    float width = 0;
};

std::vector<StageCell> cells_of_attention(const App& app) {
    const Report* report = app.document->report.get();
    std::vector<ChainLink> chain;
    if (report != nullptr) chain = chain_of(*report);
    std::vector<StageCell> cells;
    for (const StageInfo& info : stages_of(app.problem())) {
        StageCell& cell = cells.emplace_back(
            StageCell{int(info.stage), std::string(info.name), colour_of_stage(app, info.stage),
                      app.view.stage == info.stage, report != nullptr && report->guilty == info.stage});
        const auto link = std::ranges::find(chain, info.stage, &ChainLink::stage);
        if (link == chain.end()) continue;
        cell.word = link->word;
        cell.says = link->says;
    }
    return cells;
}

std::vector<StageCell> cells_of_declared(const App& app) {
    const DeclaredKernel& kernel = app.declared.kernel();
    std::vector<StageCell> cells;
    for (const int stage : stages_of(kernel.program())) {
        const DeclaredState state = state_of(kernel, stage);
        const DeclaredWord word = word_of(state);
        cells.push_back({stage, kernel.program().array(stage).name,
                         declared_colours[static_cast<std::size_t>(state)], app.declared.stage == stage,
                         state == DeclaredState::first_wrong, word_in_chain(kernel, stage),
                         fmt::format("{}\n{} = {}", word.says, heading_of(kernel.program(), stage),
                                     formula_of(kernel.program(), stage))});
    }
    return cells;
}

std::vector<StageCell> cells_of(const App& app, bool words) {
    std::vector<StageCell> cells = app.shows_declared() ? cells_of_declared(app) : cells_of_attention(app);
    for (StageCell& cell : cells) {
        cell.width = width_of_button(cell.name);
        if (!words) cell.word.clear();
        if (!cell.word.empty())
            cell.width = std::max(cell.width, ImGui::CalcTextSize(cell.word.c_str()).x + 2 * between);
    }
    return cells;
}

float width_of(const std::vector<StageCell>& cells) {
    float width = 0;
    for (const StageCell& cell : cells) width += cell.width + between;
    return width;
}

struct ReferenceChoice {
    Reference against;
    const char* name;
    const char* says;
};
constexpr std::array references = {
    ReferenceChoice{Reference::local, "local",
                    "expected is what the stages before give, as they were dumped (I)"},
    ReferenceChoice{Reference::end_to_end, "end to end", "expected is what the inputs alone give (I)"},
};

void draw_stage(App& app, const StageCell& cell) {
    if (choice(cell.name.c_str(), cell.chosen, cell.colour, cell.width)) {
        if (app.shows_declared())
            select_declared_stage(app, cell.number);
        else
            select_stage(app, Stage(cell.number));
    }
    const ImVec2 low = ImGui::GetItemRectMin();
    const ImVec2 high = ImGui::GetItemRectMax();
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    if (cell.guilty) draw.AddRectFilled({low.x, high.y - 2}, high, colours::bad);
    if (!cell.word.empty()) {
        if (ImGui::IsItemHovered()) tooltip(app, cell.says);
        app.readout.add(fmt::format("{} {}", cell.name, cell.word));
        const float width = ImGui::CalcTextSize(cell.word.c_str()).x;
        draw.AddText({std::round((low.x + high.x - width) / 2), high.y + 1},
                     cell.colour == colours::text ? colours::dim : cell.colour, cell.word.c_str());
    }
    // Scripts write a blank as an underscore.
    std::string place = "stage " + cell.name;
    std::ranges::replace(place, '_', ' ');
    app.readout.place(place, {low.x, low.y, high.x - low.x, high.y - low.y});
}

/// Buttons that belong together, and stay together where the window is too narrow for all of them.
struct Group {
    std::vector<StageCell> stages;    ///< of the first one alone
    std::vector<std::string> labels;  ///< of the others
    void (*draw)(App& app, const Group& group);
    float width = 0;
    bool words = false;  ///< under the buttons
};

/// Between stages, quantities, references and layouts.
float apart() {
    return 1.5F * ImGui::GetFontSize();
}

void draw_stages(App& app, const Group& group) {
    for (const StageCell& cell : group.stages) {
        if (&cell != &group.stages.front()) ImGui::SameLine(0, between);
        draw_stage(app, cell);
    }
}

void draw_quantities(App& app, const Group&) {
    for (const QuantityInfo& info : all_quantities()) {
        // The tab of causes has those of a replay, and the switch beside shows the others.
        if (info.against != Reference::local) continue;
        if (info.quantity != all_quantities().front().quantity) ImGui::SameLine(0, between);
        const Quantity shown = app.shows_declared() ? quantity_of_sheet(app) : app.view.quantity;
        const bool is_shown = against(app.view.against, info.quantity) == shown || info.quantity == shown;
        if (choice(std::string(info.name).c_str(), is_shown)) app.view.quantity = info.quantity;
        explain(app, info.name);
    }
}

void draw_references(App& app, const Group&) {
    for (const ReferenceChoice& reference : references) {
        if (reference.against != references.front().against) ImGui::SameLine(0, between);
        if (choice(reference.name, app.view.against == reference.against))
            choose_reference(app, reference.against);
        if (ImGui::IsItemHovered()) tooltip(app, reference.says);
    }
}

void draw_layouts(App& app, const Group&) {
    for (int i = 0; i < layout_count; ++i) {
        if (i > 0) ImGui::SameLine(0, between);
        if (choice(std::string(to_string(Layout(i))).c_str(), app.view.layout == Layout(i)))
            app.view.layout = Layout(i);
    }
}

/// A button that scripts find by its name.
bool named_choice(App& app, const char* name, const std::string& label, bool chosen) {
    app.readout.add(label);
    const bool pressed = choice(label.c_str(), chosen, colours::dim);
    const ImVec2 low = ImGui::GetItemRectMin();
    const ImVec2 size = ImGui::GetItemRectSize();
    app.readout.place(name, {low.x, low.y, size.x, size.y});
    return pressed;
}

/// Every command, in a menu for each group.
void draw_menu(App& app) {
    if (!ImGui::BeginPopup("menu")) return;
    std::string_view group;
    bool open = false;
    for (const Command& command : all_commands()) {
        if (command.help.empty()) continue;
        if (command.group != group) {
            if (open) ImGui::EndMenu();
            group = command.group;
            open = ImGui::BeginMenu(std::string(group).c_str());
            app.readout.add(fmt::format("menu {}", group));
            const ImVec2 low = ImGui::GetItemRectMin();
            const ImVec2 size = ImGui::GetItemRectSize();
            app.readout.place(fmt::format("menu {}", group), {low.x, low.y, size.x, size.y});
        }
        if (!open) continue;
        app.readout.add(fmt::format("entry {}", command.help));
        const std::string key(command.key);
        const bool pressed = ImGui::MenuItem(std::string(command.help).c_str(), key.c_str());
        const ImVec2 low = ImGui::GetItemRectMin();
        const ImVec2 size = ImGui::GetItemRectSize();
        app.readout.place(fmt::format("entry {}", command.key), {low.x, low.y, size.x, size.y});
        if (pressed) app.chosen_command = &command;
    }
    if (open) ImGui::EndMenu();
    ImGui::EndPopup();
}

/// A button beside the controls.
struct HelpButton {
    std::string_view label;
    void (*draw)(App& app, const std::string& label);
};
constexpr std::array help_buttons = {
    HelpButton{"up",
               [](App& app, const std::string& label) {
                   if (named_choice(app, "up", label, false)) go_up(app);
                   if (ImGui::IsItemHovered()) tooltip(app, "to ranks and steps (Ctrl+Backspace)");
               }},
    HelpButton{"open",
               [](App& app, const std::string& label) {
                   if (named_choice(app, "open", label, false)) enter_recording(app);
                   if (ImGui::IsItemHovered())
                       tooltip(app, "the recording of the chosen rank and step (Enter)");
               }},
    HelpButton{"show me",
               [](App& app, const std::string& label) {
                   if (named_choice(app, "show me", label, false)) show_next_step(app);
               }},
    HelpButton{"menu",
               [](App& app, const std::string& label) {
                   if (named_choice(app, "menu", label, false)) ImGui::OpenPopup("menu");
                   draw_menu(app);
               }},
    HelpButton{"? help",
               [](App& app, const std::string& label) {
                   if (named_choice(app, "help", label, app.show_help)) app.show_help = !app.show_help;
               }},
};

void draw_help(App& app, const Group& group) {
    for (const std::string& label : group.labels) {
        const auto button = std::ranges::find(help_buttons, label, &HelpButton::label);
        if (&label != &group.labels.front()) ImGui::SameLine(0, between);
        button->draw(app, label);
    }
}

/// Dimensions of the stage that its picture does not show along rows and columns.
std::vector<std::size_t> chosen_dims(const App& app) {
    const Sheet sheet = sheet_shown(app);
    std::vector<std::size_t> dims;
    for (int i = 0; i < int(sheet.index.size()); ++i)
        if (i != sheet.rows && i != sheet.cols) dims.push_back(std::size_t(i));
    return dims;
}

std::string label_of_dim(const App& app, std::size_t number) {
    const StageDim dim = dims_shown(app)[number];
    const std::string& axis = app.declared.kernel().program().axes[std::size_t(dim.axis)].name;
    const std::int64_t index = index_shown(app)[number];
    return fmt::format("{} {}{} of {}", axis, dim.blocks ? "block " : "", index, dim.extent);
}

/// As wide as what draw_dims() draws.
std::vector<std::string> labels_of_dims(const App& app) {
    std::vector<std::string> labels;
    for (const std::size_t dim : chosen_dims(app))
        labels.insert(labels.end(), {"<", label_of_dim(app, dim), ">"});
    return labels;
}

void draw_dims(App& app, const Group&) {
    bool first = true;
    for (const std::size_t dim : chosen_dims(app)) {
        const std::string& axis =
            app.declared.kernel().program().axes[std::size_t(dims_shown(app)[dim].axis)].name;
        const std::string label = label_of_dim(app, dim);
        int step = 0;
        ImGui::PushID(int(dim));
        if (!std::exchange(first, false)) ImGui::SameLine(0, apart());
        if (named_choice(app, ("before " + axis).c_str(), "<", false)) step = -1;
        ImGui::SameLine(0, between);
        ImGui::AlignTextToFramePadding();
        text(app, label);
        ImGui::SameLine(0, between);
        if (named_choice(app, ("next " + axis).c_str(), ">", false)) step = 1;
        ImGui::PopID();
        if (step != 0) step_dim(app, dim, step);
    }
}

Group group_of(std::vector<std::string> labels, void (*draw)(App& app, const Group& group)) {
    Group group{{}, std::move(labels), draw};
    for (const std::string& label : group.labels) group.width += width_of_button(label) + between;
    return group;
}

std::vector<Group> groups_of(const App& app, float room) {
    if (app.ranks.shown) return {group_of({"open", "menu", "? help"}, draw_help)};
    std::vector<Group> groups;
    Group& stages = groups.emplace_back(Group{cells_of(app, true), {}, draw_stages});
    const bool is_judged = app.shows_declared() || app.document->report != nullptr;
    stages.words = is_judged && width_of(stages.stages) <= room;
    if (!stages.words) stages.stages = cells_of(app, false);
    stages.width = width_of(stages.stages);
    std::vector<std::string> labels;
    for (const QuantityInfo& info : all_quantities())
        if (info.against == Reference::local) labels.emplace_back(info.name);
    groups.push_back(group_of(std::move(labels), draw_quantities));
    if (!shown_document(app).pair()) {
        labels.clear();
        for (const ReferenceChoice& reference : references) labels.emplace_back(reference.name);
        groups.push_back(group_of(std::move(labels), draw_references));
    }
    if (app.shows_declared()) {
        groups.push_back(group_of(labels_of_dims(app), draw_dims));
        groups.push_back(group_of({"menu", "? help"}, draw_help));
        return groups;
    }
    labels.clear();
    for (int i = 0; i < layout_count; ++i) labels.emplace_back(to_string(Layout(i)));
    groups.push_back(group_of(std::move(labels), draw_layouts));
    std::vector<std::string> buttons = {"show me", "menu", "? help"};
    if (app.problem().shard.is_part() && !app.document->pair()) buttons.insert(buttons.begin(), "up");
    groups.push_back(group_of(std::move(buttons), draw_help));
    return groups;
}

/// Shows each group with `show(group, x, y)`; returns the height of all.
template <class Show>
float flow(const std::vector<Group>& groups, float room, const Show& show) {
    const float line = ImGui::GetFrameHeight() + ImGui::GetStyle().ItemSpacing.y;
    float x = 0;
    float y = 0;
    float height = 0;
    for (const Group& group : groups) {
        if (x > 0 && x + group.width > room) {
            x = 0;
            y = height;
        }
        show(group, x, y);
        x += group.width + apart();
        height = std::max(height, y + line + (group.words ? ImGui::GetFontSize() + 1 : 0));
    }
    return height;
}

float room_in(float width) {
    return width - 2 * ImGui::GetStyle().WindowPadding.x;
}

}  // namespace

float controls_height(const App& app, float width) {
    const float room = room_in(width);
    return flow(groups_of(app, room), room, [](const Group&, float, float) {});
}

void draw_controls(App& app, float width) {
    const float room = room_in(width);
    const ImVec2 corner = ImGui::GetCursorPos();
    flow(groups_of(app, room), room, [&](const Group& group, float x, float y) {
        ImGui::SetCursorPos({corner.x + x, corner.y + y});
        group.draw(app, group);
    });
}

}  // namespace tilescope::viewer
