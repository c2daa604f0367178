#pragma once

#include "tests/oracle/honest_block.h"

namespace tilescope::test {

/// Scores of a tile: what the last multiplication takes (the sum of products, or the tangent of the cap),
/// what the kernel holds, with bias and mask, and what it dumps.
struct Scores {
    Tile base;
    Tile held;
    Tile dumped;
    static constexpr std::array parts = {&Scores::base, &Scores::held, &Scores::dumped};
};

/// Computes and records them.
Scores compute_scores(Block& block, const Tile& q, const Tile& k);

/// The score as the softmax takes it, before the mask.
float held_score(const Block& block, float base, std::int64_t row, std::int64_t key);

}  // namespace tilescope::test
