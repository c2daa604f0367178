#pragma once

#include <optional>

#include "dump/schema/program.h"

namespace tilescope {

/// What a formula of scores, or of what is computed from each of them, gives where a mask hides all scores, as behind the last
/// key; nullopt: that is not one number.
std::optional<double> value_where_hidden(const Program& program, int formula);

}  // namespace tilescope
