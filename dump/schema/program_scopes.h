#pragma once

#include "dump/schema/program.h"

namespace tilescope {

/// Whether a stage has this axis among its indices.
bool has_axis(const Program& program, const ProgramArray& array, int axis);

/// Finds the loops, and which state each formula takes; then checks that it takes indices that it has, and of stages what
/// there is by then.
/// Errors: Error with line and column.
void settle_scopes(Program& program);

}  // namespace tilescope
