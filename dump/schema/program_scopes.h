#pragma once

#include <vector>

#include "dump/schema/program.h"

namespace tilescope {

/// Stages that go through the blocks of an axis together, one block after the other; each once where `axis` is -1.
struct ProgramLoop {
    int axis = -1;
    int first = 0;  ///< array
    int end = 0;    ///< one behind the last
};
std::vector<ProgramLoop> program_loops(const Program& program);

/// Whether a stage has this axis among its indices.
bool has_axis(const Program& program, const ProgramArray& array, int axis);

/// That each formula takes indices that it has, and of stages what there is by then.
/// Errors: Error with line and column.
void check_scopes(const Program& program);

}  // namespace tilescope
