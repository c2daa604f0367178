#include "viewer/panels/history_cells.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace tilescope::viewer {

namespace {

struct StateStyle {
    StepState state;
    ImU32 colour;
    const char* says;
};
constexpr std::array state_styles = {
    StateStyle{StepState::not_recorded, colours::absent, "the file does not hold it"},
    StateStyle{StepState::hidden, colours::absent,
               "the mask hides the whole tile, and the kernel skipped it"},
    StateStyle{StepState::not_judged, colours::unjudged,
               "nothing can be expected here, or the tolerance is too wide to tell"},
    StateStyle{StepState::right, colours::good, "within its budget of what the stages before it give"},
    StateStyle{StepState::inherited, colours::inherited,
               "right for the stages before it, and wrong for the inputs: an earlier step made the error"},
    StateStyle{StepState::wrong, colours::bad,
               "further from what the stages before it give than rounding can explain"},
};

const StateStyle& style_of(StepState state) {
    return *std::ranges::find(state_styles, state, &StateStyle::state);
}

std::string number_text(double value, int digits) {
    if (is_unwritten(float(value))) return "unwritten";
    if (std::isnan(value)) return "nan";
    return digits == 0 ? digits_of(value) : fmt::format("{:.{}g}", value, digits);
}

float width_of(const std::string& line) {
    return ImGui::CalcTextSize(line.c_str()).x;
}

/// A number of a cell.
struct CellNumber {
    double value;
    ImU32 colour;
    std::string text = {};
};

/// As text, all alike, with as many digits as there is room for: each has `width`.
void write_numbers(std::vector<CellNumber>& numbers, float width) {
    for (const int digits : {0, 6, 4, 3, 2, 1}) {
        bool fits = true;
        for (CellNumber& number : numbers) {
            number.text = number_text(number.value, digits);
            fits = fits && width_of(number.text) <= width;
        }
        if (fits) return;
    }
    for (CellNumber& number : numbers) number.text = ellipsized(number.text, width);
}

/// Of two recordings neither is known to be right or wrong.
struct PairWord {
    StepState state;
    std::string_view word;
    const char* says;
};
constexpr std::array pair_words = {
    PairWord{StepState::right, "same",
             "the two recordings are as near to each other as rounding in both may leave them"},
    PairWord{StepState::wrong, "differs",
             "the two recordings are further apart than rounding in both can explain"},
};

/// In place of numbers.
std::string words_of(const HistoryStep& step, bool pair) {
    return step.state == StepState::wrong ? "never written" : std::string(word_of(step.state, pair));
}

StepState shown_state(const HistoryCell& cell) {
    return cell.undeclared && cell.step.element ? StepState::not_judged : cell.step.state;
}

void draw_ground(ImDrawList& draw, const HistoryCell& cell) {
    const ImVec2 at{cell.box.x, cell.box.y};
    const ImVec2 end = at + ImVec2(cell.box.width, cell.box.height);
    const bool wrong = shown_state(cell) == StepState::wrong;
    draw.AddRectFilled(at, end, wrong ? (colours::bad & 0x00ffffffU) | 0x30000000U : colours::canvas);
    if (cell.selected) draw.AddRect(at, end, colours::accent);
    if (!cell.first_wrong) return;
    draw.AddRect(at + ImVec2(1, 1), end - ImVec2(1, 1), colours::bad, 0, 0, 2);
    const float middle = (at.y + end.y) / 2;
    const float size = 0.45F * ImGui::GetFontSize();
    draw.AddTriangleFilled({at.x - size, middle - size}, {at.x - size, middle + size}, {at.x + 1, middle},
                           colours::bad);
}

/// Dumped, expected, and of what inherited an error what is expected end to end; returns them as words.
std::string draw_numbers(const App& app, ImDrawList& draw, const HistoryCell& cell, ImVec2 at, float end) {
    const HistoryStep& step = cell.step;
    const StepState state = shown_state(cell);
    const float em = ImGui::GetFontSize();
    const bool calm = state == StepState::right || state == StepState::inherited;
    std::vector<CellNumber> numbers = {{step.element->got, calm ? colours::text : style_of(state).colour},
                                       {step.element->expected, colours::dim}};
    const bool both = step.end_to_end && !cell.stacked;
    if (both) numbers.push_back({step.end_to_end->expected, style_of(state).colour});
    const auto count = float(numbers.size());
    const float width = cell.stacked ? end - at.x : (end - at.x - (count - 1) * em) / count;
    write_numbers(numbers, width);
    std::string words =
        fmt::format("{} {} {}", numbers[0].text, numbers[1].text, word_of(state, app.document->pair()));
    if (both) words += ", end to end " + numbers[2].text;
    if (app.view.flipped) std::swap(numbers[0], numbers[1]);
    for (const CellNumber& number : numbers) {
        draw.AddText({std::round(at.x), std::round(at.y)}, number.colour, number.text.c_str());
        (cell.stacked ? at.y : at.x) += cell.stacked ? 1.1F * em : width + em;
    }
    return words;
}

}  // namespace

ImU32 colour_of(StepState state) {
    return style_of(state).colour;
}

std::string_view word_of(StepState state, bool pair) {
    const auto* const found = std::ranges::find(pair_words, state, &PairWord::state);
    return pair && found != pair_words.end() ? found->word : to_string(state);
}

const char* says(StepState state, bool pair) {
    const auto* const found = std::ranges::find(pair_words, state, &PairWord::state);
    return pair && found != pair_words.end() ? found->says : style_of(state).says;
}

void draw_step_mark(ImDrawList& draw, ImVec2 centre, float radius, StepState state) {
    const ImU32 colour = colour_of(state);
    const float r = radius;
    switch (state) {
        case StepState::not_recorded:
        case StepState::hidden:
            break;
        case StepState::not_judged:
            draw.AddRectFilled(centre - ImVec2(r, 1), centre + ImVec2(r, 1), colour);
            break;
        case StepState::right:
            draw.AddCircle(centre, 0.8F * r, colour, 0, 1.5F);
            break;
        case StepState::inherited:
            draw.AddTriangleFilled(centre + ImVec2(-r, -r), centre + ImVec2(r, 0), centre + ImVec2(-r, r),
                                   colour);
            break;
        case StepState::wrong:
            draw.AddRectFilled(centre - ImVec2(r, r), centre + ImVec2(r, r), colour);
            break;
    }
}

void draw_history_cell(App& app, ImDrawList& draw, const HistoryCell& cell) {
    const HistoryStep& step = cell.step;
    const float em = ImGui::GetFontSize();
    const float radius = 0.3F * em;
    draw_ground(draw, cell);
    const std::string name(stage_info(app.problem(), step.stage).name);
    float x = cell.box.x + 0.5F * em;
    const float first = cell.box.y + (cell.box.height - (cell.stacked ? 2.1F : 1) * em) / 2;
    const float end = cell.box.x + cell.box.width - 0.3F * em;
    const StepState state = shown_state(cell);
    if (cell.named) {
        draw.AddText({std::round(x), std::round(first)}, colours::dim, name.c_str());
        x += width_of(name) + 0.5F * em;
    }
    std::string words = name + " ";
    if (!step.element) {
        words += words_of(step, app.document->pair());
        const std::string fits = ellipsized(words_of(step, app.document->pair()), end - x);
        draw.AddText({std::round(x), std::round(first)}, colour_of(step.state), fits.c_str());
    } else {
        draw_step_mark(draw, {x + radius, first + em / 2}, radius, state);
        // Other elements of the step are.
        if (step.wrong > 0 && step.state != StepState::wrong && !cell.undeclared)
            draw.AddRect({x - 2, first + em / 2 - radius - 2},
                         {x + 2 * radius + 2, first + em / 2 + radius + 2}, colours::bad);
        x += 2 * radius + 0.5F * em;
        words += draw_numbers(app, draw, cell, {x, first}, end);
    }
    if (cell.first_wrong) words += ", first";
    app.readout.add("step " + words);
}

std::string describe_step(const App& app, const HistoryCell& cell) {
    const HistoryStep& step = cell.step;
    const StepState state = shown_state(cell);
    const std::string name(stage_info(app.problem(), step.stage).name);
    const bool pair = app.document->pair();
    if (!step.element) return fmt::format("{}: {}", name, words_of(step, pair));
    const Element& element = *step.element;
    std::string text =
        fmt::format("{}\ndumped {}\n{} {} +- {:.3g}",
                    coordinates_of(app.problem(), {step.stage, element.tile, element.row, element.col}),
                    number_text(element.got, 0), pair ? "other file" : "expected",
                    number_text(element.expected, 0), element.tolerance);
    if (state == StepState::wrong && std::isfinite(element.ratio()))
        text += fmt::format("\n{} x budget", short_number(element.ratio()));
    if (step.end_to_end)
        text += fmt::format("\nend to end {} +- {:.3g}", number_text(step.end_to_end->expected, 0),
                            step.end_to_end->tolerance);
    if (step.wrong + step.inherited > 1)
        text += "\nof all elements that go into it: " +
                (pair ? fmt::format("{} differ", step.wrong)
                      : fmt::format("{} wrong, {} inherited", step.wrong, step.inherited));
    return text + (cell.undeclared ? "\nnot judged: the stage does what is not declared"
                                   : fmt::format("\n{}: {}", word_of(state, pair), says(state, pair)));
}

}  // namespace tilescope::viewer
