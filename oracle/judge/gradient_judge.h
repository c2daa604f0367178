#pragma once

#include "oracle/judge/plan.h"
#include "oracle/replay/gradient_replay.h"

namespace tilescope {

/// Judges what a backward pass captured of one query block (its operands, delta, the tiles of s, p, dp and
/// ds, and dq) and adds what it finds to `partial`.
void judge_gradient_rows(const Plan& plan, const TileId& q_block, Pass pass, JudgedPart& partial);

/// The same for dk and dv of one KV tile. `tile.head` counts dkv_heads().
void judge_gradient_keys(const Plan& plan, const TileId& tile, Pass pass, JudgedPart& partial);

}  // namespace tilescope
