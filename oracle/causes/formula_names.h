#pragma once

#include <string_view>

#include "dump/schema/program.h"

namespace tilescope {

/// The cause of the table that a formula of the stage `made_in` is an instance of; empty: none. `declared` and `becomes` are nodes of
/// the program: that formula, and the one in its place.
std::string_view name_of_formula(const Program& program, std::string_view made_in, int declared, int becomes);

}  // namespace tilescope
