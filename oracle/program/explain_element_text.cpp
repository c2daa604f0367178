#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "dump/schema/error.h"
#include "oracle/program/explain_element.h"
#include "oracle/program/judge_program.h"

namespace tilescope {

namespace {

constexpr std::size_t most_columns = 110;
/// Of operations within operations within operations: lines have room for formulas.
constexpr int most_indented = 12;

std::vector<std::string> words_between_commas(std::string_view text) {
    std::vector<std::string> words;
    for (;;) {
        const std::size_t comma = text.find(',');
        words.emplace_back(text.substr(0, comma));
        if (comma == std::string_view::npos) return words;
        text.remove_prefix(comma + 1);
    }
}

/// "acc,N,M[,BLOCK]": how an element of a stage is named.
std::string form_of(const Program& program, const ProgramArray& stage) {
    std::string form = "give " + stage.name;
    for (const int index : stage.indices)
        form += "," + program.axes[std::size_t(program.axis_of(index))].name;
    if (stage.over < 0) return form;
    return form + "[,block of " + program.axes[std::size_t(stage.over)].name + "]";
}

std::string names_of_stages(const Program& program) {
    std::string names;
    for (const ProgramArray& array : program.arrays)
        if (array.is_stage) names += (names.empty() ? "" : ", ") + array.name;
    return names;
}

std::int64_t index_of_word(const std::string& word, const std::string& what, std::int64_t extent,
                           const std::string& where, const std::string& form) {
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
    if (error != std::errc() || end != word.data() + word.size() || index < 0)
        throw Error("\"" + word + "\" is not a number from 0 on", where, form);
    if (index < extent) return index;
    throw Error(fmt::format("{} {} is outside the call", what, index), where,
                fmt::format("give one from 0 to {}", extent - 1));
}

std::string number_of(const ExplainedOperation& line) {
    if (line.count == 1) return fmt::format("{:.9g}", line.value);
    return line.count == 0 ? "" : fmt::format("({} terms)", line.count);
}

std::string row(const std::string& share, const std::string& value, const std::string& error,
                const std::string& own, const std::string& text) {
    const std::string line = fmt::format("{:>10} {:>16} {:>10} {:>10}  {}", share, value, error, own, text);
    if (line.size() <= most_columns) return line + "\n";
    return line.substr(0, most_columns - 3) + "...\n";
}

std::string row_of(const ExplainedOperation& line) {
    const std::string indent(std::size_t(2 * std::min(line.depth, most_indented)), ' ');
    const auto figure = [](double number) { return number == 0 ? "0" : fmt::format("{:.3g}", number); };
    return row(line.is_step ? figure(line.share) : "", number_of(line), figure(line.error),
               line.is_step ? figure(line.own) : "", indent + line.text);
}

std::string how_it_came_out(const ElementExplanation& explanation) {
    if (!explanation.got) return "not stored";
    const double got = *explanation.got;
    if (std::isnan(explanation.expected) || std::isinf(explanation.tolerance))
        return "of which nothing can be expected";
    if (nobody_wrote(got)) return "which nobody wrote";
    const bool is_within = is_as_expected(got, explanation.expected, explanation.tolerance);
    const double times = std::abs(got - explanation.expected) / explanation.tolerance;
    const std::string ratio = std::isfinite(times) ? fmt::format(", {:.3g} times the tolerance", times) : "";
    return fmt::format("got {:.9g}: {}{}", got, is_within ? "within" : "OUTSIDE", ratio);
}

}  // namespace

StageElement stage_element(const ProgramCall& call, const std::string& text, const std::string& where) {
    const Program& program = call.program;
    const std::vector<std::string> words = words_between_commas(text);
    const int number = program.array_named(words.front());
    if (number < 0 || !program.array(number).is_stage)
        throw Error("there is no stage \"" + words.front() + "\"", where,
                    "name one of " + names_of_stages(program));
    const ProgramArray& stage = program.array(number);
    const std::string form = form_of(program, stage);
    const std::size_t dims = stage.indices.size();
    const std::size_t given = words.size() - 1;
    if (given != dims && !(stage.over >= 0 && given == dims + 1))
        throw Error(fmt::format("has {} indices", given), where, form);
    StageElement element{.stage = number};
    for (std::size_t i = 0; i < dims; ++i) {
        const auto axis = std::size_t(program.axis_of(stage.indices[i]));
        element.index.push_back(
            index_of_word(words[i + 1], program.axes[axis].name, call.extents[axis], where, form));
    }
    if (stage.over < 0) return element;
    element.block = given == dims
                        ? call.last_block(stage)
                        : index_of_word(words.back(), "block", call.blocks_of(stage.over), where, form);
    return element;
}

std::string explanation_text(const Program& program, const ElementExplanation& explanation) {
    const StageElement& element = explanation.element;
    const ProgramArray& stage = program.array(element.stage);
    const std::string place =
        stage.name + place_text(program, element.stage, {.index = element.index, .block = element.block});
    const std::string last = fmt::format("{}: expected {:.9g} +- {:.3g}, {}\n", place, explanation.expected,
                                         explanation.tolerance, how_it_came_out(explanation));
    std::string text = row("share", "value", "off by", "own", "");
    text.erase(text.find_last_not_of(" \n") + 1);
    text += "\n";
    for (const ExplainedOperation& line : explanation.operations) text += row_of(line);
    if (!std::isfinite(explanation.expected) || !std::isfinite(explanation.tolerance)) return text + last;
    text += row(fmt::format("{:.3g}", explanation.tolerance), "", "", "", "tolerance");
    text +=
        "\nshare: what the tolerance has of it; off by: what it may be off by; own: how much of that it "
        "rounds "
        "itself.\nOf several terms these are the largest, and the share is that of all.\n\n";
    return text + last;
}

}  // namespace tilescope
