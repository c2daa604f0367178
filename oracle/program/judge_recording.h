#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dump/recording/program_recording.h"
#include "oracle/program/judge_program.h"

namespace tilescope {

/// How a declared kernel that was kept in a file came out.
struct JudgedProgram {
    std::string recording{};  ///< its file
    Provenance provenance{};
    std::string program_text{};
    Program program{};
    std::map<std::string, std::int64_t> sizes{};  ///< all of them, those that shapes tell among them
    ProgramReport report{};
    FoundMistakes found{};
    bool searched = false;                     ///< for mistakes
    std::vector<std::string> search_failed{};  ///< why
    double confidence = 0;
    std::size_t top = 0;  ///< worst elements that are shown
    std::string text{};   ///< report_text()
};

struct ProgramJudging {
    bool causes = true;     ///< whether to look for a mistake where something diverges
    std::size_t top = 5;    ///< worst elements to show, of those that are kept
    std::string died = {};  ///< how a search of the same ended before, in place of another
};

/// Judges what is in the file `name`.
/// Errors: Error naming it, for arrays and sizes that are not what the text asks for, and where nothing can be told.
JudgedProgram judge_program_recording(const std::string& name, const ProgramRecording& recording,
                                      const ProgramJudging& how = {});

}  // namespace tilescope
