#pragma once

#include <optional>

#include "oracle/program/build.h"
#include "oracle/program/searched_call.h"

namespace tilescope {

/// The condition that a state grew in the block, or did not.
inline constexpr double bits_of_state = 6;

/// "m > m.before", or "m <= m.before".
int state_condition(ProgramBuilder& build, int state, bool grew);

/// The condition of a state that what a rewrite explains has, and not most of what it breaks: indices may tell the rest. As a node of
/// `program`; nullopt: there is none.
std::optional<int> condition_of_states(Program& program, const SearchedCall& searched,
                                       const RewriteOutcome& outcome);

}  // namespace tilescope
