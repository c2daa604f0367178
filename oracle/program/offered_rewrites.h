#pragma once

#include <vector>

#include "oracle/program/rewrites.h"
#include "oracle/program/searched_call.h"

namespace tilescope {

// What is worth a replay, beside what was solved for.

/// Of what was solved for, the same with indices within their blocks, and without the guard that a number stands in place of the
/// formula: neither is told by a few blocks; and the same for the wrong stage alone. They are added to the rewrites.
void add_variants(SearchedCall& searched, std::vector<ProgramRewrite>& rewrites);

/// What kernels are known to do otherwise, or may easily, in each formula that may be wrong. Their nodes are added to the program.
std::vector<ProgramRewrite> listed_rewrites(SearchedCall& searched);

}  // namespace tilescope
