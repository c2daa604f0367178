#pragma once

#include "oracle/causes/search.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// One of two mistakes explains at least so much of what diverges.
inline constexpr double enough_of_two = 0.2;

/// Two mistakes of one stage, where no cause alone explains it: the first is added to Diagnosis::causes, the second to
/// Diagnosis::then. Where the second is not known, of the first wrong stage the first alone, if it explains most.
void find_two(const Evidence& evidence, const SingleCauses& singles, const Report& report, int threads,
              Diagnosis& diagnosis);

}  // namespace tilescope
