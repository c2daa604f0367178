#pragma once

#include <vector>

#include "oracle/program/judge_program.h"

namespace tilescope {

/// What a mistake is free to choose, in bits: its own, as of one that nobody knows.
double bits_to_choose(const ProgramMistake& mistake);

/// The mistakes that explain what is wrong: the shortest, and those that are as good beside it; none where nothing was wrong, or nothing explains it.
/// It replays parts of the call: rows and columns around elements that are wrong, and around others.
FoundMistakes find_mistakes(const ProgramCall& call, const StoredTiles& stored, const ProgramReport& report,
                            ProgramOptions options = {});

/// The same, and those of other wrong stages to which these do not lead.
FoundMistakes find_all_mistakes(const ProgramCall& call, const StoredTiles& stored,
                                const ProgramReport& report);

}  // namespace tilescope
