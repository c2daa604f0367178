#pragma once

#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// Formulas that explain the stage that diverges, by the program that the recording declares (oracle/PROGRAMS.md); none for
/// recordings that cannot be said as one, or are too large.
std::vector<FoundCause> found_formulas(const Recording& recording, const Evidence& evidence);

}  // namespace tilescope
