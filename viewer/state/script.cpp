#include "viewer/state/script.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "dump/schema/error.h"

namespace tilescope::viewer {

namespace {

/// Frames that must pass without anything new before a wait ends: panels ask for what they show frame by
/// frame.
constexpr int calm_enough = 4;
/// The picture of the map is not drawn with every tile that is judged.
constexpr double calm_seconds = 0.2;
constexpr int drag_steps = 8;
constexpr double most_pixels = 16384;

struct StepKind {
    std::string_view name;
    int least;  ///< arguments
    int most;   ///< -1: any number
};
constexpr std::array step_kinds = {
    StepKind{"key", 1, 1},         StepKind{"key_down", 1, 1},      StepKind{"key_up", 1, 1},
    StepKind{"type", 1, -1},       StepKind{"click", 2, 2},         StepKind{"click_right", 2, 2},
    StepKind{"move", 2, 2},        StepKind{"drag", 4, 4},          StepKind{"drag_right", 4, 4},
    StepKind{"scroll", 3, 3},      StepKind{"drop", 1, -1},         StepKind{"resize", 2, 2},
    StepKind{"wait", 0, 0},        StepKind{"frames", 1, 1},        StepKind{"expect", 1, -1},
    StepKind{"expect_not", 1, -1}, StepKind{"screenshot", 1, 1},    StepKind{"time", 0, 0},
    StepKind{"await", 1, -1},      StepKind{"picture", 2, 2},       StepKind{"expect_clipboard", 1, -1},
    StepKind{"listen", 0, 0},      StepKind{"expect_title", 1, -1},
};

std::optional<double> number_from(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

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

}  // namespace

std::vector<ScriptStep> read_script(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw Error("cannot be read", path, "give --script a text file with an event a line");
    std::vector<ScriptStep> steps;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        std::istringstream words(line);
        ScriptStep step;
        step.line = number;
        if (!(words >> step.command) || step.command.starts_with('#')) continue;
        words >> std::ws;
        std::getline(words, step.rest);
        std::istringstream arguments(step.rest);
        for (std::string argument; arguments >> argument;) step.arguments.push_back(argument);
        const auto* kind = std::ranges::find(step_kinds, step.command, &StepKind::name);
        const auto count = int(step.arguments.size());
        const std::string where = fmt::format("{}:{}", path, number);
        if (kind == step_kinds.end())
            throw Error(step.command + " is no event", where, "viewer/state/script.h lists the events");
        if (count < kind->least || (kind->most >= 0 && count > kind->most))
            throw Error(fmt::format("{} with {} arguments", step.command, count), where,
                        "viewer/state/script.h lists the events");
        steps.push_back(std::move(step));
    }
    return steps;
}

void ScriptPlayer::fail(const ScriptStep& step, const std::string& what) const {
    throw Error(what, fmt::format("{}:{}", path_, step.line), "see the screenshot, or mend the script");
}

bool ScriptPlayer::at_rest(const App& app, const Window& window) const {
    return app.status.message.empty() && app.status.idle && !app.waits && !app.drift.waits() && !app.npy &&
           !window.has_input();
}

void ScriptPlayer::check_text(const ScriptStep& step, const App& app) const {
    std::string text = step.rest;
    for (std::size_t at = text.find("\\n"); at != std::string::npos; at = text.find("\\n"))
        text.replace(at, 2, "\n");
    const bool found = app.readout.text().find(text) != std::string::npos;
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
        std::string x = step.arguments[first];
        const std::size_t colon = x.rfind(':');
        Point scale{1, 1};
        Point origin;
        if (colon != std::string::npos) {
            const Box box = box_named(step, app, x.substr(0, colon));
            origin = {box.x, box.y};
            scale = {box.width, box.height};
            x = x.substr(colon + 1);
        }
        const auto along = number_from(x);
        const auto down = number_from(step.arguments[first + 1]);
        if (!along || !down) fail(step, step.rest + " is no place");
        return Point{origin.x + scale.x * *along, origin.y + scale.y * *down};
    };
    const Point at = place(0);
    const int button = step.command.ends_with("_right") ? 1 : 0;
    if (step.command.starts_with("drag")) return feed_drag(window, button, at, place(2));
    feed_move(window, at);
    if (step.command == "scroll") {
        const auto turns = number_from(step.arguments[2]);
        if (!turns) fail(step, step.arguments[2] + " is no number");
        window.feed({.type = InputEvent::Type::scroll, .y = *turns, .path = {}});
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
        const auto width = number_from(step.arguments[0]);
        const auto height = number_from(step.arguments[1]);
        // The display ends programs that ask for less.
        if (!width || !height ||
            !(*width >= 1 && *width <= most_pixels && *height >= 1 && *height <= most_pixels))
            fail(step, step.rest + " is no size");
        window.resize(int(*width), int(*height));
    } else if (command == "wait") {
        waits_ = true;
        calm_frames_ = 0;
        waited_since_ = ImGui::GetTime();
    } else if (command == "frames") {
        frames_left_ = int(number_from(step.arguments[0]).value_or(1));
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
        awaited_ = step.rest;
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
        const std::uint64_t version = app.session.version();
        const bool calm = at_rest(app, window) && version == version_;
        version_ = version;
        calm_frames_ = calm ? calm_frames_ + 1 : 0;
        if (!calm) calm_since_ = ImGui::GetTime();
        waits_ = calm_frames_ < calm_enough || ImGui::GetTime() - calm_since_ < calm_seconds;
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
