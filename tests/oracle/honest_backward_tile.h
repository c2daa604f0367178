#pragma once

#include "tests/oracle/honest_backward.h"
#include "tests/oracle/honest_block.h"

namespace tilescope::test {

/// What one thread block of the backward kernel works on.
struct GradientBlock {
    const GradientCall& call;
    const GradientPlant& plant;
    Block block;

    const GradientArithmetic& a() const { return call.arithmetic; }
    bool faulty(GradientMistake mistake) const { return plant.is(mistake, block.id.batch, block.id.head); }
};

/// A query block as it is loaded.
struct GradientRows {
    Tile q;
    Tile dout;
    Tile delta;
    std::vector<float> lse;
};

/// Loads it, and records q, dout and delta.
GradientRows load_rows(GradientBlock& g);

/// What a tile brings into the sums, rows x keys, and the keys of it.
struct TileGradients {
    Tile p_operand;
    Tile ds_operand;
    Tile k;
};

/// Computes one tile, and records k, v, s, p, dp and ds.
TileGradients compute_tile(GradientBlock& g, const GradientRows& rows);

}  // namespace tilescope::test
