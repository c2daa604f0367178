#include "viewer/state/script.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>

#include "dump/schema/error.h"

namespace tilescope::viewer {

namespace {

/// Frames that must pass without anything new before a wait ends: panels ask for what they show frame by
/// frame.
constexpr int calm_enough = 4;
constexpr int drag_steps = 8;

void feed_key(Window& window, const KeyChord& chord, bool down) {
    constexpr int shift = 340;
    constexpr int control = 341;
    const auto feed = [&](int code) {
        window.feed({.type = InputEvent::Type::key, .code = code, .down = down, .path = {}});
    };
    if (down && chord.is_character())
        return window.feed({.type = InputEvent::Type::character, .code = chord.key, .path = {}});
    if (chord.is_character()) return;
    if (!down) feed(chord.key);
    if (chord.shift) feed(shift);
    if (chord.control) feed(control);
    if (down) feed(chord.key);
}

struct Point {
    double x = 0;
    double y = 0;
};

void feed_move(Window& window, Point to) {
    window.feed({.type = InputEvent::Type::cursor, .x = to.x, .y = to.y, .path = {}});
}

void feed_button(Window& window, int button, bool down) {
    window.feed({.type = InputEvent::Type::button, .code = button, .down = down, .path = {}});
}

void feed_drag(Window& window, int button, Point from, Point to) {
    feed_move(window, from);
    feed_button(window, button, true);
    for (int i = 1; i <= drag_steps; ++i) {
        const double share = double(i) / drag_steps;
        feed_move(window, {from.x + share * (to.x - from.x), from.y + share * (to.y - from.y)});
    }
    feed_button(window, button, false);
}

/// The text that a step is about, with the ends of its lines.
std::string text_of(const ScriptStep& step) {
    std::string text = step.rest;
    for (std::size_t at = text.find("\\n"); at != std::string::npos; at = text.find("\\n"))
        text.replace(at, 2, "\n");
    return text;
}

}  // namespace

void ScriptPlayer::fail(const ScriptStep& step, const std::string& what) const {
    throw Error(what, fmt::format("{}:{}", path_, step.line), "see the screenshot, or mend the script");
}

bool ScriptPlayer::at_rest(const App& app, const Window& window) const {
    return app.status.message.empty() && app.status.idle && !app.waits &&
           (!app.shows_recording() || !app.drift.waits()) && !app.npy && !window.has_input();
}

void ScriptPlayer::check_text(const ScriptStep& step, const App& app) const {
    const bool found = app.readout.text().find(text_of(step)) != std::string::npos;
    if (found == (step.command == "expect")) return;
    fail(step, fmt::format("\"{}\" is {} in the window, which shows:\n{}", step.rest, found ? "" : "not ",
                           app.readout.text()));
}

Box ScriptPlayer::box_named(const ScriptStep& step, const App& app, std::string name) const {
    std::ranges::replace(name, '_', ' ');
    const Box* box = app.readout.find(name);
    if (box == nullptr) fail(step, name + " is not in the window");
    return *box;
}

void ScriptPlayer::play_pointer(const ScriptStep& step, const App& app, Window& window) {
    const auto place = [&](std::size_t first) {
        const std::string& x = step.arguments[first];
        const std::size_t colon = x.rfind(':');
        Point scale{1, 1};
        Point origin;
        if (colon != std::string::npos) {
            const Box box = box_named(step, app, x.substr(0, colon));
            origin = {box.x, box.y};
            scale = {box.width, box.height};
        }
        return Point{origin.x + scale.x * step.numbers[first], origin.y + scale.y * step.numbers[first + 1]};
    };
    const Point at = place(0);
    const int button = step.command.ends_with("_right") ? 1 : 0;
    if (step.command.starts_with("drag")) return feed_drag(window, button, at, place(2));
    feed_move(window, at);
    if (step.command == "scroll") {
        window.feed({.type = InputEvent::Type::scroll, .y = step.numbers[2], .path = {}});
    }
    if (step.command.starts_with("click")) {
        feed_button(window, button, true);
        feed_button(window, button, false);
    }
}

void ScriptPlayer::play(const ScriptStep& step, App& app, Window& window) {
    const std::string& command = step.command;
    if (command.starts_with("key")) {
        const auto chord = chord_from_name(step.arguments[0]);
        if (!chord) fail(step, step.arguments[0] + " is no key");
        if (command != "key_up") feed_key(window, *chord, true);
        if (command != "key_down") feed_key(window, *chord, false);
    } else if (command == "type") {
        for (const char letter : step.rest)
            window.feed({.type = InputEvent::Type::character, .code = letter, .path = {}});
    } else if (command == "drop") {
        for (const std::string& path : step.arguments)
            window.feed({.type = InputEvent::Type::drop, .path = path});
    } else if (command == "resize") {
        window.resize(int(step.numbers[0]), int(step.numbers[1]));
    } else if (command == "wait") {
        waits_ = true;
        calm_frames_ = 0;
        waited_since_ = ImGui::GetTime();
    } else if (command == "frames") {
        frames_left_ = int(step.numbers[0]);
    } else if (command == "expect_clipboard") {
        const char* held = ImGui::GetClipboardText();
        if (held == nullptr || std::string_view(held).find(step.rest) == std::string_view::npos)
            fail(step,
                 fmt::format("\"{}\" is not in the clipboard: {}", step.rest, held == nullptr ? "" : held));
    } else if (command == "expect_title") {
        if (window_title(app).find(step.rest) == std::string::npos)
            fail(step, fmt::format("\"{}\" is not in the title: {}", step.rest, window_title(app)));
    } else if (command.starts_with("expect")) {
        check_text(step, app);
    } else if (command == "await") {
        awaited_ = text_of(step);
        waited_since_ = ImGui::GetTime();
    } else if (command == "listen") {
        window.listen();
    } else if (command == "time") {
        times_anew_ = true;
    } else if (command == "screenshot") {
        picture_ = {{0, 0, float(window.width()), float(window.height())}, step.rest};
    } else if (command == "picture") {
        picture_ = {box_named(step, app, step.arguments[0]), step.arguments[1]};
    } else {
        play_pointer(step, app, window);
    }
}

void ScriptPlayer::advance(App& app, Window& window) {
    if (window.has_input()) return;
    if (waits_) {
        const std::uint64_t version = app.version();
        const bool calm = at_rest(app, window) && version == version_;
        version_ = version;
        calm_frames_ = calm ? calm_frames_ + 1 : 0;
        waits_ = calm_frames_ < calm_enough;
        if (waits_ && ImGui::GetTime() - waited_since_ > patience)
            fail(steps_[next_ - 1],
                 fmt::format("not at rest after {} seconds: {}", patience, app.status.message));
        if (waits_) return;
    }
    if (!awaited_.empty()) {
        if (app.readout.text().find(awaited_) != std::string::npos) awaited_.clear();
        if (!awaited_.empty() && ImGui::GetTime() - waited_since_ > patience)
            fail(steps_[next_ - 1],
                 fmt::format("\"{}\" does not come within {} seconds", awaited_, patience));
        if (!awaited_.empty()) return;
    }
    if (frames_left_ > 0) {
        --frames_left_;
        return;
    }
    while (next_ < steps_.size()) {
        const ScriptStep& step = steps_[next_++];
        // What an event changes is drawn in the frame after it, and can be looked up in the one after that.
        const bool looks = step.command.starts_with("expect");
        frames_left_ = looks || step.command == "wait" || step.command == "await" ? 0 : 2;
        play(step, app, window);
        if (!looks) return;
    }
}

}  // namespace tilescope::viewer
