#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oracle/report/text.h"
#include "oracle/runs/found_places.h"

namespace tilescope {

namespace {

std::string name_of_stage(Stage stage) {
    return std::string(stage_info(stage).name);
}

/// How much of the explanation is the search's choice.
std::string fitted(const FoundCause& cause) {
    if (cause.free_parameters == 0) return "";
    return fmt::format("; {} fitted", cause.free_parameters == 1
                                          ? "a parameter"
                                          : std::to_string(cause.free_parameters) + " parameters");
}

/// What it is and where, and the formula of one that has a name.
std::string cause_line(const char* kind, const FoundCause& cause) {
    const std::string formula = formula_of(cause);
    return fmt::format("{}: {} in {}: {}\n", kind, label_of(cause), name_of_stage(cause.stage),
                       says_of(cause)) +
           (formula.empty() ? "" : "  " + formula + "\n");
}

/// The cause that explains best, in three or four lines.
std::string best_cause(const Report& report, const FoundCause& cause) {
    const bool is_race = cause.name == racing_name;
    const char* kind = cause.legal        ? "legal, if it is meant"
                       : is_race          ? "written again"
                       : cause.structural ? "wrong elements"
                                          : "cause";
    std::string text = cause_line(kind, cause);
    if (is_race) {
        text += "  the last value stays; which it is may change from run to run\n";
    } else if (cause.structural && cause.explained_after > 0) {
        text += fmt::format(
            "  this pattern tells right from wrong in {} of {} elements; no replay knows their values\n",
            percent_of(cause.explained_after), cause.elements);
    } else if (!cause.structural) {
        text += fmt::format("  explained {}, healthy replay {}; {}{}\n", explained_text(cause),
                            percent_of(cause.explained_before), cause.where, fitted(cause));
        if (cause.leaves_rest) text += "  no known cause explains what it leaves\n";
    }
    return text + fmt::format("  {}{}{}\n", cause.legal ? "" : "look at: ", look_at_of(cause),
                              cause.legal ? "" : hooked_text(report, cause.stage));
}

/// Causes that explain as much as the first.
std::vector<const FoundCause*> tied_with_first(const std::vector<FoundCause>& causes) {
    std::vector<const FoundCause*> tied;
    for (std::size_t i = 1; i < causes.size(); ++i)
        if (causes[i].rank == causes[0].rank) tied.push_back(&causes[i]);
    return tied;
}

/// That the first of them is no better than the others, and what would tell.
std::string ties_text(const Diagnosis& diagnosis, const std::vector<const FoundCause*>& tied) {
    if (tied.empty() && !diagnosis.record_next.empty())
        return fmt::format("  a load may have it as well: {}\n", record_text(diagnosis.record_next));
    if (tied.empty()) return "";
    std::string names;
    for (const FoundCause* cause : tied) {
        names += (names.empty() ? "" : ", ") + headline_of(*cause);
        if (cause->stage != diagnosis.causes[0].stage) names += " in " + name_of_stage(cause->stage);
    }
    std::string text = "  as good: " + names;
    // Of places each is true.
    text += diagnosis.causes[0].structural ? "\n" : "; this recording does not tell which of them it is\n";
    if (!diagnosis.separate_with.empty())
        text += fmt::format("  to tell them apart: {}\n", diagnosis.separate_with);
    if (!diagnosis.record_next.empty())
        text += fmt::format("  to tell them apart: {}\n", record_text(diagnosis.record_next));
    return text;
}

std::string places_text(const Diagnosis& diagnosis) {
    std::string text;
    for (const std::string& place : diagnosis.places) text += "  " + place + "\n";
    return text;
}

/// Who owns what is wrong; "" where that is not known.
std::string threads_line(const Diagnosis& diagnosis) {
    if (!diagnosis.threads) return "";
    return fmt::format("  the wrong elements{} are those of {}\n",
                       diagnosis.threads->among_right_ones ? ", and right ones," : "",
                       diagnosis.threads->says);
}

/// What the mistake of another recording says of this one.
std::string prediction_text(const Prediction& prediction) {
    if (!prediction.cause)
        return fmt::format("cause of {}: none was found there that a replay knows\n", prediction.of);
    const FoundCause& cause = *prediction.cause;
    std::string text =
        fmt::format("cause of {}: {} in {}: ", prediction.of, headline_of(cause), name_of_stage(cause.stage));
    if (prediction.wrong == 0)
        return text + fmt::format("nothing of {} is wrong here\n", name_of_stage(cause.observed));
    const double explained = 1 - double(prediction.left) / double(prediction.wrong);
    return text + fmt::format("{} {} of {} wrong elements here{}\n",
                              prediction.holds() ? "it explains" : "another mistake: it explains",
                              percent_of(explained), prediction.wrong,
                              prediction.elsewhere ? ", at other places" : "");
}

std::string end_text(const Diagnosis& diagnosis) {
    std::string text;
    for (const std::string& line : lines_of(diagnosis.end)) text += one_line(line) + "\n";
    return text;
}

/// A line for each stage that diverges by itself beside the first.
std::string answers_text(const Report& report) {
    std::string text;
    for (const StageAnswer& answer : report.diagnosis.answers) {
        if (answer.stage != report.guilty)
            text += fmt::format("wrong too, {}: {}\n", name_of_stage(answer.stage), text_of(answer));
    }
    return text;
}

/// Causes of what the first one does not explain, of whichever stage.
std::string further_text(const Diagnosis& diagnosis) {
    constexpr std::size_t most = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(diagnosis.then.size(), most); ++i) {
        const FoundCause& next = diagnosis.then[i];
        text += cause_line(next.structural ? "besides" : "then", next);
        if (next.race_alike) text += "  a race looks the same here, too\n";
    }
    return text;
}

/// What is said where any of the causes is told that a missing barrier leaves as well.
std::string race_text(const Diagnosis& diagnosis, const std::vector<const FoundCause*>& tied) {
    const auto is_alike = [](const FoundCause* cause) { return cause->race_alike; };
    if (!diagnosis.causes[0].race_alike && std::ranges::none_of(tied, is_alike)) return "";
    return fmt::format("  a race looks the same in one recording: {}\n", how_to_tell_a_race);
}

}  // namespace

std::string hooked_text(const Report& report, Stage stage) {
    const std::vector<SourceLine>& hooks = report.stage(stage).hooks;
    if (hooks.empty()) return "";
    constexpr std::size_t most = 3;
    std::string places;
    for (std::size_t i = 0; i < std::min(hooks.size(), most); ++i)
        places += (i > 0 ? ", " : "") + to_string(hooks[i]);
    if (hooks.size() > most) places += fmt::format(" and {} more", hooks.size() - most);
    return fmt::format("; {} is hooked at {}", stage_info(report.problem, stage).name, places);
}

std::string remains_text(const Suggestion& suggestion) {
    if (!suggestion.then) return "then it matches";
    const std::vector<FoundCause>& causes = suggestion.causes;
    if (causes.empty() && !suggestion.end.is_whole())
        return fmt::format("what remains begins in {}, and was not searched to the end",
                           name_of_stage(*suggestion.then));
    if (causes.empty())
        return fmt::format("what remains begins in {}{}", name_of_stage(*suggestion.then),
                           suggestion.searched ? ", and no known cause explains it" : "");
    std::string text = fmt::format("what remains is {} in {}: {}", headline_of(causes[0]),
                                   name_of_stage(causes[0].stage), says_of(causes[0]));
    for (const FoundCause* cause : tied_with_first(causes)) text += ", or " + headline_of(*cause);
    return text;
}

std::string suggestion_text(const Suggestion& suggestion) {
    std::string text;
    for (const auto& [name, value] : suggestion.assignments)
        text += fmt::format("{}{} = {}", text.empty() ? "declare: " : ", ", name, value);
    return text + "; " + remains_text(suggestion);
}

std::string causes_text(const Report& report) {
    const Diagnosis& diagnosis = report.diagnosis;
    std::string text = diagnosis.suggestion ? suggestion_text(*diagnosis.suggestion) + "\n" : "";
    if (diagnosis.prediction) text += prediction_text(*diagnosis.prediction);
    if (!diagnosis.searched) return text + end_text(diagnosis);
    const std::string places = places_text(diagnosis) + threads_line(diagnosis);
    const bool is_declared = diagnosis.suggestion && !diagnosis.suggestion->then;
    const std::string end = end_text(diagnosis);
    if (diagnosis.causes.empty() && is_declared) return text + places + end;
    if (diagnosis.causes.empty())
        return text + (diagnosis.tried_all() ? "no known cause explains this\n" : "no cause was found\n") +
               end + places + further_text(diagnosis) + answers_text(report);
    // Of what nobody wrote there are no values to explain: the causes below say all that there is to say.
    const StageTally tally = report.guilty ? report.stage(*report.guilty).tally : StageTally();
    if (diagnosis.causes[0].structural && tally.outside > tally.unwritten)
        text += diagnosis.tried_all() ? "no known cause explains the values\n"
                                      : "no cause of the values was found\n";
    const std::vector<const FoundCause*> tied = tied_with_first(diagnosis.causes);
    text += best_cause(report, diagnosis.causes[0]) + places + ties_text(diagnosis, tied);
    text += race_text(diagnosis, tied);
    return text + further_text(diagnosis) + answers_text(report) + end;
}

}  // namespace tilescope
