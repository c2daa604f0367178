#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dump/schema/program.h"

namespace tilescope {

/// The cause of the table that a formula of the stage `made_in` is an instance of; empty: none. `declared` and `becomes` are nodes of
/// the program: that formula, and the one in its place.
std::string_view name_of_formula(const Program& program, std::string_view made_in, int declared, int becomes);

/// What stands in place of what in it, around which both are the same: "l -> l[b, h, i / 4 * 4]". One mistake in two stages is told so.
std::vector<std::string> changed_parts(const Program& program, int declared, int becomes);

/// Whether something is read a whole block before or behind where it should be, or in another state: so it is where a barrier is missing.
bool takes_other_block(const Program& program, int declared, int becomes);

}  // namespace tilescope
