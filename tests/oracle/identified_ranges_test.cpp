// Sums whose ends depend on another number.

#include <gtest/gtest.h>

#include "tests/oracle/known_run.h"

namespace tilescope::test {
namespace {

const std::vector<Stage> of_row_sums = {Stage::m, Stage::p, Stage::l};

/// Of the three query blocks the first is right: what the third leaves out is no matter of q_block % 2.
TEST(IdentifiedRanges, AreHeldToElementsThatAreRight) {
    KnownRun run(of_row_sums);
    run.recompute(Stage::l, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        const bool begins = tile.kv_tile == 0;
        double sum = begins ? 0 : run.at(Stage::l, KnownRun::before(tile), row) * run.factor(tile, row);
        for (std::int64_t c = 0; c < run.call.problem.block_n - tile.q_block % 4; ++c)
            sum += run.at(Stage::p, tile, row, c);
        return sum;
    });
    EXPECT_EQ(run.found(), "formula: l * rescale + sum(j: p where j % block_n < 16 - i / block_m else 0.0)");
}

}  // namespace
}  // namespace tilescope::test
