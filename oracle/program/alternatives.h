#pragma once

#include <vector>

#include "dump/schema/program.h"

namespace tilescope {

/// What a kernel may have done in place of a function; without itself, or with it among those of its kind.
std::vector<ProgramFunction> functions_like(ProgramFunction function);

/// The comparisons that a kernel may have in place of one.
std::vector<ProgramOp> comparisons_like(ProgramOp op);

}  // namespace tilescope
