#pragma once

#include "oracle/causes/search.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// What the report says of a mistake that was found: its numbers, where it is made, and its length in bits.
FoundCause report_of(const Found& found, const Evidence& evidence, const Report& report);

}  // namespace tilescope
