#include "viewer/panels/words.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>

namespace tilescope::viewer {

namespace {

struct Word {
    std::string_view word;
    std::string_view meaning;
};

// True of whatever is on screen: of one recording or two, of the stages before or end to end, forward or backward.
constexpr std::array words = {
    Word{"dumped", "what the kernel wrote"},
    Word{"expected",
         "what dumped is held against: what the float64 oracle computes of the stages before, as they were "
         "dumped, or end to end of the inputs alone; of two recordings the other one"},
    Word{"end to end", "what the float64 oracle computes of the inputs alone"},
    Word{"other file", "what the second recording holds"},
    Word{"difference", "dumped less expected"},
    Word{"over budget", "the difference in budgets: rounding explains up to 1"},
    Word{"ulps", "the difference in steps from one number of the dtype to the next, at what is expected"},
    Word{"relative error", "the difference by the magnitude of what is expected"},
    Word{"replayed", "what a kernel with the chosen cause would have written"},
    Word{"unexplained", "how far the dumped values are from the replay, in budgets"},
    Word{"finding", "how the element compares with what is expected"},
    Word{"bits", "the float32 that was recorded, and its code in the stage's dtype"},

    Word{"Row", "one q row across the KV tiles, stage by stage"},
    Word{"Drift", "how far the running m, l and acc are from exact arithmetic, KV tile by KV tile"},
    Word{"Histogram", "how the errors and the exponents are spread"},
    Word{"Budget", "what rounding can explain: its terms, each with its source"},
    Word{"Causes", "mistakes and declarations that explain what diverges, the best first"},
    Word{"Source", "the lines of the kernel that recorded the stage on screen"},
    Word{"History", "what went into one element of the output, tile by tile"},
    Word{"Map", "a cell for each tile, in the colour of its worst element"},
    Word{"Bad", "rows and tiles with elements that diverge"},

    Word{"NaN", "not a number"},
    Word{"+Inf", "plus infinity"},
    Word{"-Inf", "minus infinity"},
    Word{"masked", "hidden by the mask, and as it is to be there"},
    Word{"left out", "nobody wrote it, and the kernel may leave it out: it is held against nothing"},
    Word{"unwritten", "no thread wrote it"},
    Word{"not captured", "its tile was not recorded"},
    Word{"not stored", "the recording does not have it"},
    Word{"nothing expected", "what it is computed from is NaN: nothing can be expected"},
    Word{"should be Inf",
         "a number, where an infinity is expected: a score that the mask should have hidden"},
    Word{"inherited",
         "right for what the stages before give, and wrong end to end: an earlier stage is to blame"},
    Word{"not judged", "recorded, and not judged, or not yet"},
    Word{"conflicting", "two threads wrote different values"},
};

}  // namespace

void tooltip(App& app, const std::string& line) {
    app.readout.add(line);
    ImGui::BeginTooltip();
    ImGui::PushTextWrapPos(32 * ImGui::GetFontSize());
    ImGui::TextUnformatted(line.data(), line.data() + line.size());
    ImGui::PopTextWrapPos();
    ImGui::EndTooltip();
}

std::string_view meaning_of(std::string_view word) {
    const auto* const found = std::ranges::find(words, word, &Word::word);
    return found == words.end() ? std::string_view() : found->meaning;
}

void explain(App& app, std::string_view word) {
    const ImVec2 low = ImGui::GetItemRectMin();
    const ImVec2 high = ImGui::GetItemRectMax();
    explain(app, word, {low.x, low.y, high.x - low.x, high.y - low.y});
}

void explain(App& app, std::string_view word, const Box& box) {
    const std::string_view meaning = meaning_of(word);
    if (meaning.empty()) return;
    app.readout.place(fmt::format("word {}", word), box);
    const bool pointed = ImGui::IsWindowHovered() &&
                         ImGui::IsMouseHoveringRect({box.x, box.y}, {box.x + box.width, box.y + box.height});
    if (pointed) tooltip(app, fmt::format("{}: {}", word, meaning));
}

}  // namespace tilescope::viewer
