#pragma once

#include <string>
#include <vector>

#include "dump/schema/program.h"
#include "oracle/describe/changed_slot.h"

namespace tilescope {

/// What `becomes` does otherwise than `declared`; both are nodes of the program. `is_start`: what a state is before its first block.
std::vector<ChangedSlot> changed_slots(const Program& program, int declared, int becomes, bool is_start);

/// Of a state at whatever block it is taken.
std::string part_text(const Program& program, int node);

}  // namespace tilescope
