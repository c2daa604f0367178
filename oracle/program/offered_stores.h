#pragma once

#include <vector>

#include "oracle/program/stored_at.h"

namespace tilescope {

struct OfferedStore {
    StoredAt store;
    double bits = 0;
};

/// Places that a kernel may have stored a stage at, the shorter ones first: dimensions in another order, other extents, and what the
/// values vote for that stand elsewhere in the memory. Their nodes are added to the program.
std::vector<OfferedStore> offered_stores(Program& program, const ProgramCall& call, const WholeStage& whole);

}  // namespace tilescope
