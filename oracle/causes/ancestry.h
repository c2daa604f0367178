#pragma once

#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/runs/stages_before.h"

namespace tilescope {

/// The stages in which a mistake may lie that shows first in evidence.observed: itself, and those before it that
/// were not dumped; s as well where it was not dumped in every KV tile that the blocks looked at see.
std::vector<Stage> acting_stages(const Evidence& evidence);

}  // namespace tilescope
