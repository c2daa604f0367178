#pragma once

#include <span>
#include <string>

#include "oracle/report/formats.h"

namespace tilescope {

// SARIF 2.1.0, which code hosts show beside the source: a result for each recording that diverges, a notification for
// each that could not be judged. Source: OASIS, Static Analysis Results Interchange Format 2.1.0.

std::string sarif_head(std::span<const JudgedRecording> all);
std::string sarif_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits);
std::string sarif_tail(std::span<const JudgedRecording> all);

}  // namespace tilescope
