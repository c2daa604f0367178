#include "oracle/cli/judge_program_file.h"

#include <string>
#include <utility>

#include "dump/program_file.h"
#include "dump/schema/error.h"
#include "oracle/judge/share_pieces.h"
#include "oracle/program/explain_element.h"
#include "oracle/report/npy.h"

namespace tilescope {

namespace {

/// An option that is about tiles, heads, declarations or causes of attention.
struct OptionOfAttention {
    const char* name;
    bool (*is_given)(const Arguments& arguments);
};
constexpr OptionOfAttention options_of_attention[] = {
    {"--against", [](const Arguments& a) { return !a.against.empty(); }},
    {"--stage", [](const Arguments& a) { return !a.stage.empty(); }},
    {"--row", [](const Arguments& a) { return a.judge.compare.only_row.has_value(); }},
    {"--tile", [](const Arguments& a) { return a.judge.compare.only_kv_tile.has_value(); }},
    {"--png", [](const Arguments& a) { return !a.png.empty(); }},
    {"--like", [](const Arguments& a) { return !a.like.empty(); }},
    {"--atol", [](const Arguments& a) { return a.judge.compare.atol.has_value(); }},
    {"--rtol", [](const Arguments& a) { return a.judge.compare.rtol.has_value(); }},
    {"--cause-of", [](const Arguments& a) { return !a.cause_of.empty(); }},
    {"--replay-out", [](const Arguments& a) { return !a.replay.empty(); }},
    {"--without-cause", [](const Arguments& a) { return !a.without.empty(); }},
    {"--search-all", [](const Arguments& a) { return a.search_all; }},
    {"--suggest", [](const Arguments& a) { return a.suggest; }},
};

/// The recording, as if --declare stood in its text.
ProgramRecording read_declared(const std::string& path, const Arguments& arguments) {
    ProgramRecording recording = read_program_recording(path);
    for (const std::string& declaration : arguments.declarations)
        recording.text = with_formula(recording.text, declaration, path + ": --declare " + declaration);
    return recording;
}

}  // namespace

bool is_program_file(const FoundPath& found, const JudgePlan& plan) {
    if (plan.sharing == nullptr) return holds_program(found.path);
    bool is_one = plan.sharing->process() == 0 && holds_program(found.path);
    fold_from_first(*plan.sharing, is_one);
    return is_one;
}

void refuse_options_of_attention(const std::string& path, const Arguments& arguments) {
    for (const OptionOfAttention& option : options_of_attention) {
        if (option.is_given(arguments))
            throw Error("holds a declared kernel, of which " + std::string(option.name) + " says nothing",
                        path, "leave the option out, or name recordings of attention alone");
    }
}

JudgedProgram judge_program_file(const FoundPath& found, const JudgePlan& plan) {
    refuse_options_of_attention(found.path, plan.arguments);
    ProgramJudging how;
    how.causes = plan.searches_causes();
    how.top = std::size_t(plan.arguments.judge.compare.top);
    how.died = plan.search_died;
    how.declared = plan.arguments.declarations;
    const ProgramRecording recording = read_declared(found.path, plan.arguments);
    JudgedProgram judged = judge_program_recording(found.path, recording, how);
    const int wrong = judged.report.first_wrong;
    if (!plan.arguments.npy.empty() && wrong >= 0)
        write_npy(plan.arguments.npy, RecordedCall(recording), wrong);
    return judged;
}

std::string read_program_text(const std::string& path, const Arguments& arguments) {
    return read_declared(path, arguments).text;
}

std::string explain_program_element(const std::string& path, const Arguments& arguments) {
    refuse_options_of_attention(path, arguments);
    const ProgramRecording recording = read_declared(path, arguments);
    const RecordedCall recorded(recording);
    const StageElement element =
        stage_element(recorded.call, arguments.element, "--explain-tolerance " + arguments.element);
    return explanation_text(recorded.program, explain_stage_element(recorded.call, recorded.stored, element));
}

}  // namespace tilescope
