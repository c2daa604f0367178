#pragma once

#include "oracle/causes/search.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// What the report says of a mistake that was found: its numbers, where it is made, and its length in bits.
FoundCause report_of(const Found& found, const Evidence& evidence, const Report& report);
/// A formula that was found in another stage, with the numbers of this one.
FoundCause as_seen_in(const Evidence& evidence, const Report& report, FoundCause cause);

}  // namespace tilescope
