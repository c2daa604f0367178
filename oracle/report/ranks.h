#pragma once

#include <string>

#include "oracle/ranks/rank_report.h"

namespace tilescope {

/// A map of ranks and steps with the first wrong stage of each, what is wrong, and why. The last line is the verdict.
std::string to_text(const RankReport& report);

/// The same for programs, as report.schema.json has it: a part for each recording, what is wrong in order of computation.
std::string to_json(const RankReport& report);

}  // namespace tilescope
