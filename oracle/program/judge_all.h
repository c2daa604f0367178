#pragma once

#include "oracle/program/arguments.h"

namespace tilescope {

/// Judges all recordings and says how they came out; the exit code.
int judge_all(const Arguments& arguments);

/// Answers --suggest or --explain-tolerance; the exit code.
int ask_one(const Arguments& arguments);

/// The same where the process that was asked has ended without a word.
int give_up_asking(const Arguments& arguments, const std::string& how);

}  // namespace tilescope
