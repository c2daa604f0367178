#include "oracle/report/list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dump/file/saved_name.h"
#include "dump/schema/text.h"

namespace tilescope {

namespace {

constexpr std::size_t verdict_columns = 8;
constexpr std::size_t stage_columns = 6;
constexpr std::size_t time_columns = 8;
constexpr std::size_t fixed_columns = verdict_columns + stage_columns + time_columns + 4 * 2;
constexpr std::size_t least_cause = 20;
constexpr std::size_t most_cause = 40;
constexpr std::size_t least_recording = 20;

bool begins_character(char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
}

/// The byte with which the character of this number begins.
std::size_t byte_of(std::string_view text, std::size_t character) {
    std::size_t at = 0;
    for (; at < text.size(); ++at)
        if (begins_character(text[at]) && character-- == 0) break;
    return at;
}

std::string without_beginning(const std::string& text, std::size_t columns) {
    const std::size_t all = columns_of(text);
    if (all <= columns) return text;
    return "..." + text.substr(byte_of(text, all - columns + 3));
}

std::string without_end(const std::string& text, std::size_t columns) {
    return columns_of(text) <= columns ? text : text.substr(0, byte_of(text, columns - 3)) + "...";
}

/// What tells one recording from another before what does not.
std::string shortened(const std::string& recording, std::size_t columns) {
    const std::string whole = one_line(recording);
    if (columns_of(whole) <= columns) return whole;
    return without_beginning(one_line(path_in_every_run(recording)), columns);
}

std::string padded(const std::string& text, std::size_t columns) {
    const std::size_t used = columns_of(text);
    return text + std::string(used < columns ? columns - used : 0, ' ');
}

struct CameColour {
    Came came;
    std::string_view begin;
};
/// SGR parameters of ECMA-48.
constexpr std::array came_colours = {
    CameColour{Came::match, "\033[32m"},
    CameColour{Came::known, "\033[36m"},
    CameColour{Came::diverged, "\033[1;31m"},
    CameColour{Came::unjudged, "\033[33m"},
};

}  // namespace

std::size_t columns_of(std::string_view text) {
    return std::size_t(std::ranges::count_if(text, begins_character));
}

ListLayout list_layout(std::size_t columns, std::size_t longest_recording, bool colour) {
    const std::size_t room = std::max(columns, fixed_columns + least_cause + least_recording) - fixed_columns;
    ListLayout layout;
    layout.colour = colour;
    layout.recording = std::min(longest_recording, room - least_cause);
    layout.cause = std::min(most_cause, room - layout.recording);
    return layout;
}

std::string list_line(const JudgedRecording& judged, const ListLayout& layout) {
    const std::string word = padded(std::string(to_string(judged.came)), verdict_columns);
    const CameColour& colour = *std::ranges::find(came_colours, judged.came, &CameColour::came);
    const std::string recording = shortened(judged.recording, layout.recording);
    return fmt::format("{}  {}  {}  {}  {:>{}}\n",
                       layout.colour ? fmt::format("{}{}\033[0m", colour.begin, word) : word,
                       padded(recording, layout.recording),
                       padded(without_end(one_line(judged.stage), stage_columns), stage_columns),
                       padded(without_end(one_line(judged.cause), layout.cause), layout.cause),
                       fmt::format("{:.2f} s", judged.seconds), time_columns);
}

std::string list_text(std::span<const JudgedRecording> all) {
    std::size_t longest = 0;
    for (const JudgedRecording& judged : all)
        longest = std::max(longest, columns_of(one_line(judged.recording)));
    const ListLayout layout = list_layout(80, longest, false);
    std::string text;
    for (const JudgedRecording& judged : all) text += list_line(judged, layout);
    return text;
}

}  // namespace tilescope
