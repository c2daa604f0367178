#pragma once

#include "oracle/judge/plan.h"

namespace tilescope {

/// Compares a named tile, at the query block and head of `outer` and every KV tile, with the other recording:
/// no formula is known for it, so the values must be equal. Without another recording its tiles are only
/// shown to the observer, and nothing is expected of them.
void judge_named(const Plan& plan, Stage stage, const TileId& outer, JudgedPart& partial);

}  // namespace tilescope
