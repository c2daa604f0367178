#pragma once

#include "tests/oracle/honest_block.h"

namespace tilescope::test {

/// A query block as it is loaded.
struct GradientRows {
    Tile q;
    Tile dout;
    Tile delta;
    std::vector<float> lse;
};

/// Loads it, and records q, dout and delta.
GradientRows load_rows(Block& block);

/// What a tile brings into the sums, rows x keys, and the keys of it.
struct TileGradients {
    Tile p_operand;
    Tile ds_operand;
    Tile k;
};

/// Computes one tile, and records k, v, s, p, dp and ds.
TileGradients compute_tile(Block& block, const GradientRows& rows);

}  // namespace tilescope::test
