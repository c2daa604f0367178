#pragma once

#include "oracle/program/searched_call.h"

namespace tilescope {

/// How many of the elements that a rewrite explains are infinite, or none: many formulas are no number in the same places.
std::int64_t without_number(const RewriteOutcome& outcome);

/// Whether there are numbers among the elements that are wrong.
bool some_wrong_is_finite(const SearchedCall& searched);

/// Whether the rewritten formulas are the declared ones with something left out: a clamp, an epsilon, a maximum, as kernels forget them.
bool leaves_out(const Program& program, const ProgramMistake& mistake);

}  // namespace tilescope
