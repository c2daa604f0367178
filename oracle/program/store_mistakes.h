#pragma once

#include <vector>

#include "oracle/program/judge_program.h"
#include "oracle/program/searched_call.h"

namespace tilescope {

/// Other places that the wrong stage was stored at, each with what it explains; the shorter ones first. Empty: none explains it.
/// Errors: Error where the stage takes too long to compute as a whole.
std::vector<ProgramMistake> store_mistakes(SearchedCall& searched);

}  // namespace tilescope
