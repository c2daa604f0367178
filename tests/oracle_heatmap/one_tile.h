#pragma once

#include <vector>

#include "oracle/formula/estimate.h"
#include "oracle/heatmap/quantity.h"
#include "tests/support/memory_recording.h"

namespace tilescope::test {

/// A tile with what it should hold, put together by hand.
struct OneTile {
    Problem problem;
    Stage stage = Stage::s;
    TileId tile;
    MatrixF got;
    Estimate expected;
    CompareOptions options;
    bool pair = false;

    ObservedTile view() const {
        const MemoryRecording recording(problem);
        return {problem, observed_context(recording, problem, stage, tile, got, pair), got, &expected,
                options};
    }
    ElementValue value(Quantity quantity, Eigen::Index row, Eigen::Index col) const {
        return value_of(view(), quantity, row, col);
    }
};

/// One row of as many columns as there are values; nothing is masked.
inline OneTile row_of(Stage stage, std::vector<float> got, std::vector<double> expected,
                      std::vector<double> error) {
    OneTile one;
    one.stage = stage;
    const auto cols = std::ssize(got);
    one.problem.seqlen_q = 1;
    one.problem.seqlen_kv = one.problem.block_n = one.problem.head_dim = one.problem.head_dim_v = cols;
    one.got = Eigen::Map<MatrixF>(got.data(), 1, cols);
    one.expected = {Eigen::Map<Matrix>(expected.data(), 1, cols), Eigen::Map<Matrix>(error.data(), 1, cols)};
    return one;
}

}  // namespace tilescope::test
