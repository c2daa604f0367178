#include "oracle/judge/diagnosis.h"

#include <fmt/format.h>

#include <cmath>

namespace tilescope {

namespace {

std::string names_of(const std::vector<Stage>& stages) {
    std::string names;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        const bool is_last = i > 0 && i + 1 == stages.size();
        names += std::string(i == 0    ? ""
                             : is_last ? " and "
                                       : ", ") +
                 std::string(stage_info(stages[i]).name);
    }
    return names;
}

}  // namespace

std::string_view to_string(AnswerKind kind) {
    switch (kind) {
        case AnswerKind::covered:
            return "covered";
        case AnswerKind::own_cause:
            return "own cause";
        case AnswerKind::unexplained:
            return "unexplained";
        case AnswerKind::not_searched:
            return "not searched";
    }
    return "";
}

std::string text_of(const StageAnswer& answer) {
    if (answer.kind == AnswerKind::not_searched) return "not searched to the end";
    const std::string computed =
        fmt::format("right with {} computed in place of what was dumped", names_of(answer.computed));
    if (answer.kind == AnswerKind::unexplained)
        return answer.computed.empty() ? "unexplained"
                                       : "unexplained: " + computed + ", but within wide budgets";
    const std::string made_in = answer.made_in ? std::string(stage_info(*answer.made_in).name) : "";
    if (answer.kind == AnswerKind::own_cause)
        return fmt::format("a cause of its own, {}{}", answer.cause,
                           answer.made_in == answer.stage ? "" : " in " + made_in);
    std::string text = "covered";
    if (answer.made_in) text += fmt::format(" by {} in {}", answer.cause, made_in);
    if (answer.made_again) return text + ", which is made here as well";
    if (answer.computed.empty()) return text + ", whose replay has it so";
    return text + ": " + computed;
}

std::string record_text(const std::vector<Stage>& stages) {
    return "record " + names_of(stages) + ", which they leave different";
}

namespace {

bool is_formula(const FoundCause& cause) {
    return !cause.parameters.empty() && cause.parameters == cause.rewrites;
}

/// A formula that no name says, whose slots do.
bool is_said_by_slots(const FoundCause& cause) {
    return cause.name == formula_name && !cause.slots.empty();
}

}  // namespace

std::string headline_of(const FoundCause& cause) {
    if (is_said_by_slots(cause)) return fmt::format("{} ({})", cause.name, said_of(cause.slots));
    return label_of(cause);
}

std::string label_of(const FoundCause& cause) {
    return is_formula(cause) ? std::string(cause.name) : title_of(cause);
}

std::string formula_of(const FoundCause& cause) {
    if (!is_formula(cause)) return "";
    return cause.parameters.front().name + " = " + cause.parameters.front().value;
}

std::string says_of(const FoundCause& cause) {
    return is_said_by_slots(cause) ? "it " + said_of(cause.slots) : std::string(cause.says);
}

std::string look_at_of(const FoundCause& cause) {
    return std::string(is_said_by_slots(cause) ? look_at_of(cause.slots) : cause.look_at);
}

std::string title_of(const FoundCause& cause) {
    std::string text(cause.name);
    for (std::size_t i = 0; i < cause.parameters.size(); ++i)
        text +=
            fmt::format("{}{} {}", i == 0 ? " (" : ", ", cause.parameters[i].name, cause.parameters[i].value);
    return cause.parameters.empty() ? text : text + ")";
}

void SearchEnd::add(const SearchEnd& other) {
    cut_off = cut_off || other.cut_off;
    failed.insert(failed.end(), other.failed.begin(), other.failed.end());
}

bool Diagnosis::tried_all() const {
    return end.is_whole() || (!answers.empty() && answers.front().kind != AnswerKind::not_searched);
}

std::vector<std::string> lines_of(const SearchEnd& end) {
    std::vector<std::string> lines;
    if (end.cut_off)
        lines.emplace_back(
            "the search was cut off, since it takes long: --search-all (Python: causes=\"all\") goes on");
    if (end.failed.empty()) return lines;
    const std::size_t others = end.failed.size() - 1;
    lines.push_back(fmt::format("a part of the search failed: {}{}", end.failed.front(),
                                others > 0 ? fmt::format("; and {} more", others) : ""));
    return lines;
}

std::string percent_of(double share) {
    return fmt::format("{:.4g} %", std::floor(share * 1e4) / 100);
}

std::string explained_text(const FoundCause& cause) {
    const std::string text =
        fmt::format("{} of {} elements", percent_of(cause.explained_after), cause.elements);
    return cause.not_determined > 0 ? fmt::format("{}, {} not determined", text, cause.not_determined) : text;
}

}  // namespace tilescope
