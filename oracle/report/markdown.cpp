#include "oracle/report/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "dump/schema/text.h"
#include "oracle/report/markup.h"

namespace tilescope {

namespace {

constexpr std::string_view special = "\\`*_{}[]<>#|~@&";

/// Text of any origin, which stays text: no markup, no link, and nobody is mentioned.
std::string literal(std::string_view text) {
    std::string result;
    for (const char c : one_line(text)) {
        if (c == '@') {
            result += "&#64;";
            continue;
        }
        if (special.find(c) != std::string_view::npos) result += '\\';
        result += c;
    }
    return result;
}

/// Longer than any run of backticks inside.
std::string fence_of(const std::string& text) {
    std::size_t longest = 0;
    std::size_t run = 0;
    for (const char c : text) {
        run = c == '`' ? run + 1 : 0;
        longest = std::max(longest, run);
    }
    return std::string(std::max<std::size_t>(longest + 1, 3), '`');
}

}  // namespace

std::string markdown_head(std::span<const JudgedRecording> all) {
    std::string text = fmt::format("**tile-diff**: {}\n\n| recording | verdict | stage | cause | time |\n",
                                   counts_text(count_judged(all)));
    text += "|---|---|---|---|---:|\n";
    for (const JudgedRecording& judged : all) {
        const bool loud = exit_code_of(judged.came) != 0;
        const std::string word = fmt::format("{0}{1}{0}", loud ? "**" : "", to_string(judged.came));
        const std::string cause =
            judged.came == Came::known ? judged.cause + ": " + judged.reason : judged.cause;
        text += fmt::format("| {} | {} | {} | {} | {:.2f} s |\n", literal(judged.recording), word,
                            literal(judged.stage), literal(cause), judged.seconds);
    }
    return text;
}

std::string markdown_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits) {
    if (judged.came == Came::match) return "";
    const std::string text = readable(report_format("text")->alone(outcome, exhibits));
    const std::string fence = fence_of(text);
    return fmt::format("\n<details>\n<summary>{}: {}</summary>\n\n{}\n{}{}\n\n</details>\n",
                       markup_escaped(one_line(judged.recording)), markup_escaped(one_line(judged.headline)),
                       fence, text, fence);
}

std::string markdown_tail(std::span<const JudgedRecording>) {
    return "";
}

}  // namespace tilescope
