#pragma once

#include <vector>

#include "oracle/program/rewrites.h"
#include "oracle/program/searched_call.h"

namespace tilescope {

/// Rewrites of stages that were not stored, whose formula cannot be solved for what a later stage holds: another number in one of
/// them, or a factor of what they are, by Newton steps.
std::vector<ProgramRewrite> fitted_numbers(SearchedCall& searched);

}  // namespace tilescope
