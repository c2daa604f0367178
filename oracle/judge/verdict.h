#pragma once

#include <string>
#include <vector>

#include "dump/recording.h"
#include "oracle/judge/report.h"

namespace tilescope {

// What a report says beside what was counted of the tiles.

/// What the recorded call and its kernel declare beyond plain attention, in a few words each: for the head of
/// a report.
std::vector<std::string> options_of(const Recording& recording);

/// What a capture lost of a stage, in words; "" for nothing.
std::string dropped_of(const Recording& recording, const StageInfo& info);

/// Adds the elements that were written again with other values.
void count_conflicts(const Recording& recording, Report& report);

/// Adds who wrote what, where the recording says it.
void count_writers(const Recording& recording, Report& report);

/// Blames the first stage that diverges and has no excuse.
void reach_verdict(Report& report);

/// Why a recorded output supports no match although nothing diverges; "" where each of them does.
std::string silent_output(const Report& report);

void add_warnings(const Recording& recording, Report& report);

/// What was lost of tiles that change no verdict.
void add_warnings_of_named(const Recording& recording, Report& report);

}  // namespace tilescope
