#pragma once

#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// Formulas that explain the stage that diverges, by the program that the recording declares (oracle/PROGRAMS.md); none for
/// recordings that cannot be said as one.
/// Errors: EffortUsedUp where `is_bounded`, and the recording is too large, or the search was cut off and found none.
std::vector<FoundCause> found_formulas(const Recording& recording, const Evidence& evidence, bool is_bounded);

}  // namespace tilescope
