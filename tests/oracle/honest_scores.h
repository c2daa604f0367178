#pragma once

#include "tests/oracle/honest_block.h"

namespace tilescope::test {

/// Scores of a tile: what the last multiplication takes (the sum of products, or the tangent of the cap), and
/// what the kernel holds, with bias and mask.
struct Scores {
    Tile base;
    Tile held;
};

/// Computes and records them.
Scores compute_scores(Block& block, const Tile& q, const Tile& k);

}  // namespace tilescope::test
