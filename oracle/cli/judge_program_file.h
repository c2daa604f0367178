#pragma once

#include <string>

#include "dump/cli/paths.h"
#include "oracle/cli/judge_one.h"
#include "oracle/program/judge_recording.h"

namespace tilescope {

/// Whether it is a file of a declared kernel: the first process alone judges it, and has to find it. Collective where processes
/// share the plan.
bool is_program_file(const FoundPath& found, const JudgePlan& plan);

/// Errors: Error naming the file where an option is given that says nothing of a declared kernel.
void refuse_options_of_attention(const std::string& path, const Arguments& arguments);

/// Judges a file that holds a declared kernel. Errors: those of refuse_options_of_attention(), read_program_recording() and
/// judge_program_recording().
JudgedProgram judge_program_file(const FoundPath& found, const JudgePlan& plan);

/// The text of such a file, with what --declare says in it. Errors: the same.
std::string read_program_text(const std::string& path, const Arguments& arguments);
/// What --explain-tolerance prints of such a file. Errors: the same, and those of stage_element().
std::string explain_program_element(const std::string& path, const Arguments& arguments);

}  // namespace tilescope
