#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dump/cli/paths.h"
#include "dump/reader.h"
#include "oracle/cli/arguments.h"
#include "oracle/cli/baseline.h"
#include "oracle/judge/work_sharing.h"
#include "oracle/report/judged.h"

namespace tilescope {

/// What there is to say of one recording.
struct Answer {
    JudgedRecording judged;
    std::string complaint;             ///< a line for stderr; empty: it was judged
    std::string text;                  ///< for a terminal
    std::vector<std::string> reports;  ///< for each output: all of it, or a part of a report of many
};

/// The bytes of an answer, from one process to another.
std::string packed(const Answer& answer);
Answer unpacked(std::string_view bytes);

/// How a recording is opened.
using Open = std::function<std::unique_ptr<Recording>(const std::string& path)>;

/// What all recordings have in common.
struct JudgePlan {
    Arguments arguments;
    std::vector<ReportOutput> outputs;
    Baseline baseline;
    bool alone = false;  ///< there is one file, and nothing is printed but its report
    /// Those that judge each recording together, of which the first has the answer; null: this process alone.
    WorkSharing* sharing = nullptr;
    Open open = open_recording;
    Open open_tried = open_tried_recording;  ///< what open() has opened in any process
    std::string judged_by = {};              ///< for who reads a complaint; empty: it is known
    /// How a process ended that searched this recording for causes: it is not searched again. Empty: none did.
    std::string search_died = {};

    bool searches_causes() const { return !arguments.no_causes && search_died.empty(); }
};

/// Judges the recording, or the shards of a run, or compares it, and writes the arrays, pictures and recordings that are
/// asked for. Collective where processes share it.
Answer judge_one(const FoundPath& found, const JudgePlan& plan);

/// What there is to say where it cannot be judged.
Answer cannot_judge(const std::string& recording, const std::string& why, const JudgePlan& plan);

/// Prints the answer of --suggest or --explain-tolerance; the exit code.
int answer_question(const std::string& recording, const Arguments& arguments);

}  // namespace tilescope
