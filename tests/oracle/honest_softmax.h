#pragma once

#include "tests/oracle/honest_block.h"
#include "tests/oracle/honest_scores.h"

namespace tilescope::test {

/// Before the first tile of a split.
State initial_state(const Block& block, bool first_split);

/// Moves the state past a tile, and records p and the state.
void softmax_step(Block& block, const Scores& scores, const Tile& v, State& state);

/// exp(before - now) of two maxima, in the units of m.
float rescale_factor(const Block& block, float before, float now);

/// A number of natural units in those of m.
float in_units_of_max(const Block& block, float value);

}  // namespace tilescope::test
