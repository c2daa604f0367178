#include <GLFW/glfw3.h>

#include <algorithm>
#include <map>
#include <utility>

#include "viewer/panels/panel.h"
#include "viewer/state/commands.h"
#include "viewer/window/imgui_input.h"

namespace tilescope::viewer {

namespace {

/// A window in the middle, above everything.
bool begin_dialog(App& app, const char* name, const Box& box, float width) {
    ImGui::SetNextWindowPos({box.x + box.width / 2, box.y + box.height / 2}, ImGuiCond_Always, {0.5F, 0.5F});
    ImGui::SetNextWindowSize({std::min(width, box.width), 0});
    ImGui::SetNextWindowSizeConstraints({0, 0}, {box.width, box.height});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {20, 16});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
    ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
    ImGui::SetNextWindowFocus();
    const bool open = ImGui::Begin(name, nullptr,
                                   ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                                       ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings);
    ImGui::PopStyleColor();
    ImGui::PopStyleVar(2);
    app.readout.place(name, {ImGui::GetWindowPos().x, ImGui::GetWindowPos().y, ImGui::GetWindowSize().x,
                             ImGui::GetWindowSize().y});
    return open;
}

void draw_group(App& app, std::string_view group) {
    text(app, std::string(group), colours::accent);
    const float column = 8.5F * ImGui::GetFontSize();
    for (const Command& command : all_commands()) {
        if (command.group != group || command.help.empty()) continue;
        text(app, std::string(command.key));
        ImGui::SameLine(ImGui::GetColumnOffset() + column);
        ImGui::PushTextWrapPos(0);
        text(app, std::string(command.help), colours::dim);
        ImGui::PopTextWrapPos();
    }
    ImGui::Spacing();
}

std::ptrdiff_t lines_of_help() {
    return std::ranges::count_if(all_commands(),
                                 [](const Command& command) { return !command.help.empty(); });
}

void draw_help(App& app, const Box& box) {
    const float em = ImGui::GetFontSize();
    const int columns = box.width > 100 * em ? 3 : 2;
    if (begin_dialog(app, "help", box, float(columns) * 39 * em)) {
        std::vector<std::string_view> groups;
        for (const Command& command : all_commands()) {
            if (std::ranges::find(groups, command.group) == groups.end()) groups.push_back(command.group);
        }
        if (ImGui::BeginTable("groups", columns)) {
            ImGui::TableNextRow();
            ImGui::TableNextColumn();
            const float top = ImGui::GetCursorPosY();
            const float share =
                ImGui::GetTextLineHeightWithSpacing() * float(lines_of_help()) / float(columns);
            for (const std::string_view group : groups) {
                if (ImGui::TableGetColumnIndex() + 1 < columns && ImGui::GetCursorPosY() - top > share)
                    ImGui::TableNextColumn();
                draw_group(app, group);
            }
            ImGui::EndTable();
        }
        text(app,
             "Mouse: wheel zooms heatmap and map, left drags and selects, twice zooms to the element, right "
             "chooses a region; files can be dropped.",
             colours::dim);
    }
    ImGui::End();
}

void list_recent(App& app) {
    title(app, app.settings.recent.empty() ? "No recording was opened yet" : "Recent files");
    // Opening one changes the list.
    const std::vector<std::string> recent = app.settings.recent;
    for (const std::string& entry : recent) {
        const std::size_t end = entry.find('\n');
        std::string label = one_line(entry.substr(0, end));
        if (end != std::string::npos) label += "  against  " + one_line(entry.substr(end + 1));
        app.readout.add(label);
        if (!selectable(app, label, entry, false)) continue;
        app.show_recent = false;
        if (end == std::string::npos) {
            open_paths(app, {entry});
        } else {
            open_paths(app, {entry.substr(0, end), entry.substr(end + 1)});
        }
    }
}

void draw_recent(App& app, const Box& box) {
    if (begin_dialog(app, "recent", box, 60 * ImGui::GetFontSize())) list_recent(app);
    ImGui::End();
}

void draw_goto(App& app, const Box& box) {
    if (begin_dialog(app, "goto", box, 40 * ImGui::GetFontSize())) {
        title(app, app.shows_declared() ? "STAGE:INDEX,...[,BLOCK], then Enter"
                                        : "STAGE:BATCH,HEAD,ROW,COL[,KV_TILE], then Enter");
        ImGui::SetNextItemWidth(-1);
        if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
        const bool entered =
            ImGui::InputText("##goto", app.goto_input.data(), app.goto_input.size(),
                             ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
        if (entered) {
            app.show_goto = false;
            go_to_text(app, app.goto_input.data());
        }
    }
    ImGui::End();
}

/// A field to type into, which has the keyboard; true where Enter was pressed. What is typed leaves others to choose from.
template <std::size_t size>
bool typed_field(const char* name, std::array<char, size>& input, std::size_t& chosen, bool fresh) {
    ImGui::SetNextItemWidth(-1);
    if (fresh) ImGui::SetKeyboardFocusHere();
    const bool entered =
        ImGui::InputText(name, input.data(), input.size(), ImGuiInputTextFlags_EnterReturnsTrue);
    if (ImGui::IsItemEdited()) chosen = 0;
    return entered;
}

/// Lines of a list that are shown at once.
constexpr std::size_t most_lines = 14;

/// Lets the arrows choose one of `count`; returns the first line to show.
std::size_t choose_line(std::size_t& chosen, std::size_t count) {
    const auto step = [&](int key, std::size_t by) {
        if (count > 0 && key_pressed(key, true)) chosen = (chosen + count + by) % count;
    };
    step(GLFW_KEY_DOWN, 1);
    step(GLFW_KEY_UP, std::size_t(-1));
    chosen = count == 0 ? 0 : std::min(chosen, count - 1);
    return chosen < most_lines ? 0 : chosen - most_lines + 1;
}

/// The arrows choose, Enter runs.
void draw_search(App& app, const Box& box) {
    CommandSearch& search = app.search;
    if (begin_dialog(app, "commands", box, 46 * ImGui::GetFontSize())) {
        const bool entered =
            typed_field("##commands", search.input, search.chosen, ImGui::IsWindowAppearing());
        const std::vector<const Command*> found = commands_with(search.input.data());
        const std::size_t first = choose_line(search.chosen, found.size());
        const float column = 11 * ImGui::GetFontSize();
        for (std::size_t i = first; i < std::min(found.size(), first + most_lines); ++i) {
            const std::string help(found[i]->help);
            app.readout.add(fmt::format("{} {}", i == search.chosen ? "chosen:" : "command:", help));
            if (ImGui::Selectable(fmt::format("{}##{}", found[i]->key, i).c_str(), i == search.chosen)) {
                app.chosen_command = found[i];
                search.shown = false;
            }
            ImGui::SameLine(column);
            text_of_cell(app, help);
        }
        if (found.empty()) text(app, "no command has these words", colours::dim);
        if (entered && !found.empty()) {
            app.chosen_command = found[search.chosen];
            search.shown = false;
        }
    }
    ImGui::End();
}

void draw_files(App& app, const Box& box) {
    FileList& list = app.files;
    if (begin_dialog(app, "files", box, 60 * ImGui::GetFontSize())) {
        title(app, "Open a recording of " + one_line(list.folder.string()));
        // The field of another folder is another one: ImGui keeps what was typed into the one that has the keyboard.
        ImGui::PushID(list.folder.c_str());
        const bool entered =
            typed_field("##files", list.input, list.chosen, std::exchange(list.fresh, false));
        ImGui::PopID();
        const std::vector<const FileList::Entry*> found = entries_with(list, list.input.data());
        const std::size_t first = choose_line(list.chosen, found.size());
        const FileList::Entry* pressed = nullptr;
        for (std::size_t i = first; i < std::min(found.size(), first + most_lines); ++i) {
            const std::string name = one_line(found[i]->name);
            const bool is_itself = found[i]->name == FileList::itself;
            app.readout.add(fmt::format("{} {}", i == list.chosen ? "chosen:" : "file:", name));
            if (selectable(app, is_itself ? name + "   all of them, as a run of several ranks" : name,
                           fmt::format("{}", i), i == list.chosen))
                pressed = found[i];
            const ImVec2 low = ImGui::GetItemRectMin();
            const ImVec2 size = ImGui::GetItemRectSize();
            app.readout.place("file " + name, {low.x, low.y, size.x, size.y});
        }
        if (!list.refused.empty())
            text(app, "cannot be read: " + list.refused, colours::bad);
        else if (found.empty())
            text(app, "no folder and no .h5 file has this name", colours::dim);
        else if (found.size() > most_lines)
            text(app, fmt::format("{} of them; typing leaves fewer", found.size()), colours::dim);
        if (entered)
            enter_file_list(app);
        else if (pressed != nullptr)
            choose_entry(app, *pressed);
    }
    ImGui::End();
}

}  // namespace

void draw_welcome(App& app, const Box& box) {
    const PanelScope panel(app, "welcome", box);
    const float em = ImGui::GetFontSize();
    const float width = std::min(60 * em, box.width - 4 * em);
    ImGui::SetCursorPos({(box.width - width) / 2, std::max(em, 0.25F * box.height)});
    ImGui::BeginChild("choices", {width, 0});
    const std::string idle = app.watch.folder.empty()
                                 ? "Drop a recording here, or two to compare them."
                                 : fmt::format("Waiting for a recording in {}", one_line(app.watch.folder));
    text(app, app.status.message.empty() ? idle : app.status.message, colours::accent);
    text(app, "In a terminal: tile-view run.h5, or tile-view a.h5 b.h5.   ? lists the keys.", colours::dim);
    ImGui::Spacing();
    list_recent(app);
    ImGui::EndChild();
}

void draw_dialogs(App& app, const Box& box) {
    if (app.show_help) draw_help(app, box);
    if (app.show_recent) draw_recent(app, box);
    if (app.search.shown) draw_search(app, box);
    if (app.files.shown) draw_files(app, box);
    if (app.show_goto && (app.shows_recording() || app.shows_declared())) draw_goto(app, box);
}

}  // namespace tilescope::viewer
