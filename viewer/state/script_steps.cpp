#include "viewer/state/script_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "dump/schema/error.h"

namespace tilescope::viewer {

namespace {

constexpr const char* advice = "viewer/state/script_steps.h lists the events";
constexpr double most_pixels = 16384;
constexpr int any_count = -1;

/// Between which every argument lies; 0 and 0 where they are words.
struct Limits {
    double low = 0;
    double high = 0;
};
constexpr Limits places{-most_pixels, most_pixels};
/// The display ends programs that ask for less.
constexpr Limits sizes{1, most_pixels};
constexpr Limits counts{1, 1e6};

struct StepKind {
    std::string_view name;
    int least;  ///< arguments
    int most;
    Limits numbers{};
};
constexpr std::array step_kinds = {
    StepKind{"key", 1, 1},
    StepKind{"key_down", 1, 1},
    StepKind{"key_up", 1, 1},
    StepKind{"type", 1, any_count},
    StepKind{"click", 2, 2, places},
    StepKind{"click_right", 2, 2, places},
    StepKind{"move", 2, 2, places},
    StepKind{"drag", 4, 4, places},
    StepKind{"drag_right", 4, 4, places},
    StepKind{"scroll", 3, 3, places},
    StepKind{"drop", 1, any_count},
    StepKind{"resize", 2, 2, sizes},
    StepKind{"wait", 0, 0},
    StepKind{"frames", 1, 1, counts},
    StepKind{"expect", 1, any_count},
    StepKind{"expect_not", 1, any_count},
    StepKind{"screenshot", 1, 1},
    StepKind{"time", 0, 0},
    StepKind{"await", 1, any_count},
    StepKind{"picture", 2, 2},
    StepKind{"expect_clipboard", 1, any_count},
    StepKind{"listen", 0, 0},
    StepKind{"expect_title", 1, any_count},
};

/// Of an argument; what comes before a colon is the panel that it is a share of.
std::optional<double> number_from(std::string_view text, const Limits& limits) {
    text.remove_prefix(text.rfind(':') + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (!(value >= limits.low && value <= limits.high)) return std::nullopt;
    return value;
}

void read_numbers(ScriptStep& step, const Limits& limits, const std::string& where) {
    for (const std::string& argument : step.arguments) {
        const auto number = number_from(argument, limits);
        if (!number)
            throw Error(fmt::format("{} of {} is no number from {:.0f} to {:.0f}", argument, step.command,
                                    limits.low, limits.high),
                        where, advice);
        step.numbers.push_back(*number);
    }
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
        if (kind == step_kinds.end()) throw Error(step.command + " is no event", where, advice);
        if (count < kind->least || (kind->most != any_count && count > kind->most))
            throw Error(fmt::format("{} with {} arguments", step.command, count), where, advice);
        if (kind->numbers.low < kind->numbers.high) read_numbers(step, kind->numbers, where);
        steps.push_back(std::move(step));
    }
    return steps;
}

}  // namespace tilescope::viewer
