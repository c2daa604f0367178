#include "oracle/program/judge_recording.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "dump/schema/error.h"
#include "oracle/program/find_mistakes.h"

namespace tilescope {

namespace {

std::map<std::string, ProgramInput> views_of(const std::map<std::string, ProgramTensor>& tensors) {
    std::map<std::string, ProgramInput> views;
    for (const auto& [name, tensor] : tensors)
        views[name] = {tensor.dtype, tensor.shape, tensor.bits, tensor.first, tensor.conflicts, tensor.hooks};
    return views;
}

/// A verdict is worth having without what explains it.
void search_mistakes(const ProgramCall& call, const StoredTiles& stored, JudgedProgram& judged) {
    try {
        judged.found = find_all_mistakes(call, stored, judged.report);
    } catch (const std::exception& error) {
        judged.search_failed.emplace_back(error.what());
    }
}

void judge_into(const ProgramRecording& recording, const ProgramJudging& how, JudgedProgram& judged) {
    const RecordedCall recorded(recording);
    const ProgramCall& call = recorded.call;
    judged.program = recorded.program;
    for (std::size_t i = 0; i < call.sizes.size(); ++i) judged.sizes[judged.program.sizes[i]] = call.sizes[i];
    const CheckedTiles stored(recorded.stored, how.check);
    ProgramOptions options;
    options.tells_inherited = true;
    judged.confidence = options.confidence;
    judged.report = judge_program(call, stored, options);
    require_judged_outputs(judged.program, judged.report);
    judged.searched = how.causes;
    if (how.causes) search_mistakes(call, stored, judged);
    judged.top = how.top;
    ProgramReport shown = judged.report;
    for (StageVerdict& stage : shown.stages) stage.worst.resize(std::min(stage.worst.size(), how.top));
    judged.text = report_text(call, shown, judged.found);
}

}  // namespace

RecordedCall::RecordedCall(const ProgramRecording& recording)
    : program(parse_program(recording.text)),
      call(bind_program(program, views_of(recording.inputs), recording.sizes)),
      stored(call, views_of(recording.stages)) {}

JudgedProgram judge_program_recording(const std::string& name, const ProgramRecording& recording,
                                      const ProgramJudging& how) {
    JudgedProgram judged{.recording = name,
                         .provenance = recording.provenance,
                         .program_text = recording.text,
                         .declared = how.declared};
    if (!how.died.empty()) judged.search_failed.push_back(how.died);
    try {
        judge_into(recording, how, judged);
    } catch (const Error& error) {
        throw Error(shortened(name) + ":/program: " + error.what());
    }
    return judged;
}

}  // namespace tilescope
