#pragma once

#include <string>
#include <string_view>

#include "dump/schema.h"
#include "dump/schema/program.h"
#include "dump/schema/span.h"

namespace tilescope {

// TILESCOPE_SELECT is for all kernels that a process records. Each takes the clauses and stages that it has, and leaves alone what
// another one has: attention's coordinates and stages, and the axes and stages of kernels that were declared so far. What nobody has stays,
// so that it is refused.

/// From here on these axes and stages are somebody's. May be called by several threads.
void share_names(const Program& program);

/// Of a selection what attention takes.
std::string part_of_attention(std::string_view selection, Span<const NamedTile> named = {});

/// What this program takes.
std::string part_of_program(std::string_view selection, const Program& program);

}  // namespace tilescope
