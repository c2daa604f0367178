#include "oracle/report/program.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "dump/schema/text.h"
#include "oracle/report/changes_json.h"
#include "oracle/report/text.h"

namespace tilescope {

namespace {

using ProgramJson = nlohmann::ordered_json;

/// JSON has no NaN and no infinities.
ProgramJson number_json(double value) {
    if (nobody_wrote(value)) return "unwritten";
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
}

ProgramJson worst_json(std::span<const ProgramElement> elements) {
    ProgramJson json = ProgramJson::array();
    for (const ProgramElement& element : elements)
        json.push_back({{"index", element.index},
                        {"block", element.block < 0 ? ProgramJson() : ProgramJson(element.block)},
                        {"got", number_json(element.got)},
                        {"expected", number_json(element.expected)},
                        {"tolerance", number_json(element.tolerance)}});
    return json;
}

ProgramJson stages_json(const JudgedProgram& judged) {
    ProgramJson json = ProgramJson::array();
    for (const StageVerdict& stage : judged.report.stages) {
        const std::size_t shown = std::min(stage.worst.size(), judged.top);
        json.push_back({{"name", judged.program.array(stage.stage).name},
                        {"compared", stage.compared},
                        {"not_judged", stage.not_judged},
                        {"outside", stage.outside},
                        {"outside_end_to_end", stage.outside_end_to_end},
                        {"inherited", stage.inherited},
                        {"unwritten", stage.unwritten},
                        {"conflicts", stage.conflicts},
                        {"max_abs", number_json(stage.largest_difference)},
                        {"budget_used", number_json(stage.budget_used)},
                        {"state", to_string(state_of(judged.report, stage))},
                        {"worst", worst_json(std::span(stage.worst).first(shown))}});
        for (const SourceLine& hook : stage.hooks) json.back()["hooks"].push_back(to_string(hook));
    }
    return json;
}

ProgramJson mistake_json(const JudgedProgram& judged, const FoundMistakes& found,
                         const ProgramMistake& mistake) {
    return {{"stage", judged.program.array(mistake.stage).name},
            {"rewrites", {{{"slot", mistake.slot}, {"becomes", mistake.becomes}}}},
            {"changes", changes_json(slots_of(found, mistake))},
            {"where", mistake.where.empty() ? "everywhere" : mistake.where},
            {"explained_before", mistake.healthy},
            {"explained_after", mistake.explained},
            {"elements", mistake.elements},
            {"not_determined", mistake.open},
            {"bits", mistake.bits}};
}

/// Null where nothing was searched, and empty where nothing was found.
ProgramJson causes_json(const JudgedProgram& judged) {
    if (!judged.searched) return {};
    ProgramJson json = ProgramJson::array();
    for (const ProgramMistake& mistake : judged.found.mistakes)
        json.push_back(mistake_json(judged, judged.found, mistake));
    return json;
}

/// What is wrong beside what the causes explain.
ProgramJson then_json(const JudgedProgram& judged) {
    ProgramJson json = ProgramJson::array();
    if (judged.found.besides) json.push_back(mistake_json(judged, judged.found, *judged.found.besides));
    for (const FoundMistakes& other : judged.found.then)
        for (const ProgramMistake& mistake : other.mistakes)
            json.push_back(mistake_json(judged, other, mistake));
    return json;
}

}  // namespace

ProgramJson changes_json(std::span<const ChangedSlot> changes) {
    ProgramJson json = ProgramJson::array();
    for (const ChangedSlot& change : changes)
        json.push_back({{"slot", to_string(change.slot)},
                        {"was", change.was},
                        {"becomes", change.becomes},
                        {"where", change.where},
                        {"in_sum", change.is_in_sum},
                        {"after_sum", change.is_after_sum}});
    return json;
}

std::string to_text(const JudgedProgram& judged) {
    std::string text;
    for (const std::string& formula : judged.declared)
        text += "judged as if it declared " + one_line(formula) + "\n";
    for (const std::string& why : judged.search_failed)
        text += "the search for a formula that explains it failed: " + one_line(why) + "\n";
    return text + judged.text;
}

std::string to_json(const JudgedProgram& judged) {
    const int wrong = judged.report.first_wrong;
    const auto name = [&](int stage) {
        return stage < 0 ? ProgramJson() : ProgramJson(judged.program.array(stage).name);
    };
    const ProgramJson json = {
        {"report_version", report_version},
        {"verdict", wrong < 0 ? "match" : "diverged"},
        {"recording", judged.recording},
        {"kernel", judged.provenance.kernel},
        {"device", judged.provenance.device},
        {"command", judged.provenance.command},
        {"program", judged.program_text},
        {"declared", judged.declared},
        {"sizes", judged.sizes},
        {"first_wrong", name(wrong)},
        {"first_wrong_end_to_end", name(judged.report.first_wrong_end_to_end)},
        {"stages", stages_json(judged)},
        {"causes", causes_json(judged)},
        {"then", then_json(judged)},
        {"wrong_where", judged.found.wrong_where},
        {"search", {{"cut_off", judged.found.is_cut_off}, {"failed", judged.search_failed}}},
        {"tolerances", {{"confidence", judged.confidence}}},
        {"summary", verdict_line(judged.program, judged.report, std::string::npos)}};
    return json.dump(2, ' ', true, ProgramJson::error_handler_t::replace) + "\n";
}

}  // namespace tilescope
