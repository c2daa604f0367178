#include <algorithm>
#include <string>

#include "viewer/panels/panel.h"
#include "viewer/state/causes_state.h"
#include "viewer/state/source_text.h"

namespace tilescope::viewer {

namespace {

/// What to look for there: of the chosen cause, where it is one of the stage's.
void draw_look_at(App& app) {
    if (app.shows_declared()) return;
    const FoundCause* const cause = chosen_cause(app);
    if (cause == nullptr || cause->legal || cause->stage != app.view.stage) return;
    text(app, fmt::format("look at: {}", look_at_of(*cause)), colours::accent);
}

void draw_hooks(App& app, const std::vector<SourceLine>& hooks) {
    for (std::size_t i = 0; i < hooks.size(); ++i) {
        app.readout.add(to_string(hooks[i]));
        if (selectable(app, to_string(hooks[i]), fmt::format("hook {}", i + 1), i == app.source.chosen)) {
            app.source.chosen = i;
            app.source.scrolled_to = 0;
        }
        const ImVec2 at = ImGui::GetItemRectMin();
        const ImVec2 size = ImGui::GetItemRectSize();
        app.readout.place(fmt::format("hook {}", i + 1), {at.x, at.y, size.x, size.y});
    }
}

/// The file with its line numbers, the hook's line marked and in the middle.
void draw_lines(App& app, const SourceText& source, std::size_t marked) {
    ImGui::BeginChild("lines", {0, 0}, false, ImGuiWindowFlags_HorizontalScrollbar);
    const float height = ImGui::GetTextLineHeightWithSpacing();
    if (app.source.scrolled_to != marked) {
        ImGui::SetScrollY(std::max(0.0F, (float(marked) - 0.5F) * height - 0.5F * ImGui::GetWindowHeight()));
        app.source.scrolled_to = marked;
    }
    const int digits = int(std::to_string(source.lines.size()).size());
    ImGuiListClipper clipper;
    clipper.Begin(int(source.lines.size()), height);
    while (clipper.Step()) {
        for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
            const bool here = std::size_t(i) + 1 == marked;
            const std::string line =
                fmt::format("{}{:{}}  {}", here ? '>' : ' ', i + 1, digits, source.lines[std::size_t(i)]);
            if (here) app.readout.add(line);
            ImGui::PushStyleColor(ImGuiCol_Text, here ? colours::accent : colours::text);
            ImGui::TextUnformatted(line.c_str());
            ImGui::PopStyleColor();
        }
    }
    ImGui::EndChild();
}

}  // namespace

void draw_source(App& app) {
    const std::string_view stage = app.shows_declared() ? std::string_view(app.declared.array().name)
                                                        : stage_info(app.problem(), app.view.stage).name;
    const std::vector<SourceLine> hooks = shown_hooks(app);
    draw_look_at(app);
    if (hooks.empty()) {
        ImGui::PushTextWrapPos(0);
        text(app,
             fmt::format("the recording does not say which line recorded {}: hooks of this version do, and a "
                         "writer may give the attribute hooks (dump/FORMAT.md)",
                         stage),
             colours::dim);
        return ImGui::PopTextWrapPos();
    }
    app.source.chosen = std::min(app.source.chosen, hooks.size() - 1);
    draw_hooks(app, hooks);
    const SourceLine& hook = hooks[app.source.chosen];
    const SourceText& source = source_of(app, hook);
    ImGui::PushTextWrapPos(0);
    if (source.path.empty()) {
        text(app,
             app.source.folder.empty()
                 ? fmt::format("{} is not below a folder that holds the recording, nor below this one: name "
                               "its project with --source DIR",
                               hook.file)
                 : fmt::format("{} is not below {}", hook.file, app.source.folder.string()),
             colours::dim);
    } else if (!source.refused.empty()) {
        text(app, fmt::format("{}: {}", source.path.string(), source.refused), colours::dim);
    } else if (std::size_t(hook.line) > source.lines.size()) {
        text(app,
             fmt::format("{} has {} lines: it is not the file that was compiled", source.path.string(),
                         source.lines.size()),
             colours::bad);
    }
    ImGui::PopTextWrapPos();
    if (!source.lines.empty()) draw_lines(app, source, std::size_t(hook.line));
}

}  // namespace tilescope::viewer
