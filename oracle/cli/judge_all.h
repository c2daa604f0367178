#pragma once

#include "oracle/cli/arguments.h"

namespace tilescope {

class WorkSharing;

/// Judges all recordings and says how they came out; the exit code. `sharing`: of the processes that do it together, each with
/// the same arguments, of which the first alone says and writes anything; null: this process, and copies of it.
int judge_all(const Arguments& arguments, WorkSharing* sharing);

/// Answers --suggest or --explain-tolerance; the exit code.
int ask_one(const Arguments& arguments);

/// The same where the process that was asked has ended without a word.
int give_up_asking(const Arguments& arguments, const std::string& how);

}  // namespace tilescope
