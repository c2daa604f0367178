#pragma once

#include <optional>
#include <vector>

#include "oracle/program/rewrites.h"
#include "oracle/program/searched_call.h"

namespace tilescope {

// Kernels compute a number anew in each loop that takes it: it may be wrong in one of them.

/// Reads of a stage in a formula, if all of them are at its own indices; empty where there is another one, or none.
std::vector<int> straight_reads(const Program& program, int formula, int stage);

/// The formula of `reader`, in which that of a stage is written out as a rewrite has it; nullopt: it does not take that stage as it is.
std::optional<int> written_in(Program& program, int reader, const ProgramRewrite& rewrite);

/// Of rewrites of what several stages take the same for the wrong stage alone; added to them.
void add_for_reader_alone(SearchedCall& searched, std::vector<ProgramRewrite>& rewrites);

}  // namespace tilescope
