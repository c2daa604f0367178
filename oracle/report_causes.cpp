#include <fmt/format.h>

#include <cmath>

#include "oracle/report.h"

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

/// The cause that explains best, in three lines.
std::string best_cause(const FoundCause& cause) {
    const char* kind = cause.legal ? "legal, if it is meant" : cause.structural ? "wrong elements" : "cause";
    std::string text =
        fmt::format("{}: {} in {}: {}\n", kind, title_of(cause), name_of_stage(cause.stage), cause.says);
    if (cause.structural) {
        text += fmt::format(
            "  this pattern tells right from wrong in {} of {} elements; no replay knows their values\n",
            percent_of(cause.explained_after), cause.elements);
    } else {
        text += fmt::format("  explained {} of {} elements, healthy replay {}; {}{}\n",
                            percent_of(cause.explained_after), cause.elements,
                            percent_of(cause.explained_before), cause.where, fitted(cause));
    }
    return text + fmt::format("  look at: {}\n", cause.look_at);
}

/// Who owns what is wrong; "" where that is not known.
std::string threads_line(const Diagnosis& diagnosis) {
    if (!diagnosis.threads) return "";
    return fmt::format("  the wrong elements{} are those of {}\n",
                       diagnosis.threads->among_right_ones ? ", and right ones," : "",
                       diagnosis.threads->says);
}

}  // namespace

std::string percent_of(double share) {
    return fmt::format("{:.4g} %", std::floor(share * 1e4) / 100);
}

std::string causes_text(const Report& report) {
    const Diagnosis& diagnosis = report.diagnosis;
    if (!diagnosis.searched) return "";
    const std::string threads = threads_line(diagnosis);
    if (diagnosis.causes.empty()) return "no known cause explains this\n" + threads;
    std::string text;
    if (diagnosis.causes[0].structural) text = "no known cause explains the values\n";
    text += best_cause(diagnosis.causes[0]) + threads;
    std::string ties;
    for (std::size_t i = 1; i < diagnosis.causes.size(); ++i) {
        if (diagnosis.causes[i].rank == diagnosis.causes[0].rank)
            ties += (ties.empty() ? "" : ", ") + title_of(diagnosis.causes[i]);
    }
    if (!ties.empty()) text += fmt::format("  as good: {}\n", ties);
    if (!ties.empty() && !diagnosis.separate_with.empty())
        text += fmt::format("  to tell them apart: {}\n", diagnosis.separate_with);
    for (std::size_t i = 0; i < std::min<std::size_t>(diagnosis.then.size(), 2); ++i) {
        const FoundCause& next = diagnosis.then[i];
        text += fmt::format("then: {} in {}: {}\n", title_of(next), name_of_stage(next.stage), next.says);
    }
    return text;
}

}  // namespace tilescope
