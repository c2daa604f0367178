#pragma once

#include <string>

#include "oracle/program/judge_recording.h"

namespace tilescope {

/// The report of a declared kernel for a terminal. The last line is the verdict.
std::string to_text(const JudgedProgram& judged);

/// The same for programs, as report.schema.json has it.
std::string to_json(const JudgedProgram& judged);

}  // namespace tilescope
