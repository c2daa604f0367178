#pragma once

#include <string>

#include "kernels/gate/latency_gate.h"

namespace tilescope {

/// "met", "not met", or "measured" when nothing is required.
std::string verdict_of(const LatencyReport& report);

/// One row a configuration, then the notes and the verdict.
std::string to_text(const LatencyReport& report);
std::string to_json(const LatencyReport& report);

}  // namespace tilescope
