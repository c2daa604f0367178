// Sums whose ends depend on another number, or leave their row.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/oracle/known_run.h"

namespace tilescope::test {
namespace {

const std::vector<Stage> of_row_sums = {Stage::m, Stage::p, Stage::l};

/// The row sum of the columns [first, last), which go on in the rows beside; without a row there are 100.
double row_sum(const KnownRun& run, const TileId& tile, std::int64_t row, std::int64_t first,
               std::int64_t last) {
    const std::int64_t cols = run.call.problem.block_n;
    const std::int64_t rows = std::min(run.call.problem.block_m,
                                       run.call.problem.seqlen_q - tile.q_block * run.call.problem.block_m);
    const bool begins = tile.kv_tile == 0;
    double sum = begins ? 0 : run.at(Stage::l, KnownRun::before(tile), row) * run.factor(tile, row);
    for (std::int64_t c = first; c < last; ++c) {
        const std::int64_t at = row * cols + c;
        const bool is_row = at >= 0 && at < rows * cols;
        sum += is_row ? run.at(Stage::p, tile, at / cols, at % cols) : 100;
    }
    return sum;
}

/// Of the three query blocks the first is right: what the third leaves out is no matter of q_block % 2.
TEST(IdentifiedRanges, AreHeldToElementsThatAreRight) {
    KnownRun run(of_row_sums);
    run.recompute(Stage::l, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        return row_sum(run, tile, row, 0, run.call.problem.block_n - tile.q_block % 4);
    });
    EXPECT_EQ(run.found(), "sum_of_other_range: ends before the last by q_block % 4, of 16 columns");
}

TEST(IdentifiedRanges, MayBeginInTheRowBefore) {
    KnownRun run(of_row_sums);
    run.recompute(Stage::l, [&](const TileId& tile, std::int64_t row, std::int64_t) {
        return row_sum(run, tile, row, -(tile.head % 2), run.call.problem.block_n);
    });
    EXPECT_EQ(run.found(), "sum_of_other_range: begins before the first by head % 2, of 16 columns");
}

/// The row behind the last one of a tile, of q or of k, is not known.
TEST(IdentifiedRanges, OfProductsGoOnInTheNextRows) {
    KnownRun run({Stage::s});
    const Problem& p = run.call.problem;
    run.recompute(Stage::s, [&](const TileId& tile, std::int64_t row, std::int64_t col) {
        const double own = run.at(Stage::s, tile, row, col);
        const bool is_last = row + 1 == p.block_m || tile.q_block * p.block_m + row + 1 == p.seqlen_q ||
                             col + 1 == p.block_n || tile.kv_tile * p.block_n + col + 1 == p.seqlen_kv;
        if (is_last) return own + 7;
        return own + 0.25 * run.product(tile, row + 1, col + 1, [](std::int64_t d) { return d < 2; });
    });
    EXPECT_EQ(run.found(), "sum_of_other_range: ends beyond the last by 2, of 16 head elements");
}

}  // namespace
}  // namespace tilescope::test
