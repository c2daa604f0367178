#pragma once

#include "oracle/plan.h"

namespace tilescope {

/// Compares the tiles of a named tile that `outer` has, one for each KV tile where it has those, with the
/// other recording: without a reference only equal values are expected. Without another recording they are
/// observed alone, and nothing is expected of them.
void judge_named(const Plan& plan, Stage stage, const TileId& outer, Partial& partial);

}  // namespace tilescope
