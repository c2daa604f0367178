#pragma once

#include <cstddef>

namespace tilescope {

/// Columns of the terminal that it is; 80 where it is none.
std::size_t columns_of_stdout();
std::size_t columns_of_stderr();

/// Whether stdout is a terminal that shows colours, and NO_COLOR (no-color.org) does not forbid them.
bool stdout_has_colour();

}  // namespace tilescope
