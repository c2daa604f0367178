// What the oracle's replay makes of NaN, infinities and rows that see nothing, and its values against
// attention by its definition on shapes of ordinary size.

#include "oracle/replay/replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "oracle/formula/softmax.h"
#include "tests/oracle/definition_replay.h"

namespace tilescope::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The end-to-end replay of one query block, from inputs that a test may have spoiled.
struct EndToEnd {
    std::unique_ptr<MemoryRecording> recording;
    ReplayFromInputs replay;

    EndToEnd(const Problem& problem, const Inputs& inputs, std::int64_t q_block = 0)
        : recording(recording_of({problem, {}, inputs})), replay(*recording, 0, 0, q_block) {}

    TileEstimates step(std::int64_t kv_tile) { return replay.step(kv_tile); }
};

TEST(Replay, EqualsTheDefinitionOnRandomProblems) {
    Coverage coverage;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        const Problem problem = random_problem(seed);
        const AttentionCall call{problem, {}, make_inputs(problem, InputKind(seed % input_kinds), seed)};
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(problem));
        expect_replay_equals_definition(call, {.skip_hidden = seed % 2 == 1}, coverage);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(coverage.rows_that_see_something, 0);
    EXPECT_GT(coverage.rows_that_see_nothing, 0);
}

TEST(Replay, RowThatSeesNothingHasZeroOutputAndNoNaN) {
    Problem p = small_problem(Mask::causal);
    p.seqlen_q = 40;
    p.seqlen_kv = 8;
    const Inputs inputs = make_inputs(p, InputKind::normal, 5);
    EndToEnd run(p, inputs);
    const TileEstimates tile = run.step(0);
    for (const Estimate* estimate : {&tile.m, &tile.p, &tile.l, &tile.acc}) {
        EXPECT_FALSE(estimate->value.hasNaN());
        // Sums may be off by what is flushed to zero.
        const bool is_sum = estimate == &tile.l || estimate == &tile.acc;
        EXPECT_LE(estimate->error.maxCoeff(), is_sum ? 17 * 0x1p-126 : 0);
    }
    EXPECT_TRUE((tile.l.value.array() == 0).all());
    EXPECT_TRUE((tile.acc.value.array() == 0).all());
    EXPECT_TRUE((tile.m.value.array() == -infinity).all());
    EXPECT_TRUE((run.replay.output().value.array() == 0).all());
    EXPECT_TRUE((run.replay.log_sum_exp().value.array() == -infinity).all());
}

TEST(Replay, NaNInMaskedRowsOfVDoesNotReachAcc) {
    Problem p = small_problem(Mask::causal);
    p.seqlen_kv = p.seqlen_q;
    Inputs inputs = make_inputs(p, InputKind::normal, 6);
    Inputs clean = inputs;
    for (std::int64_t key = 10; key < p.seqlen_kv; ++key) {
        for (std::int64_t d = 0; d < p.head_dim_v; ++d) inputs.v_at(p, 0, 0, key, d) = float(nan);
    }
    EndToEnd poisoned(p, inputs);
    EndToEnd healthy(p, clean);
    const Matrix acc = poisoned.step(0).acc.value;
    const Matrix expected = healthy.step(0).acc.value;
    for (Eigen::Index row = 0; row < 16; ++row) {
        const bool sees_nan = row >= 10;
        for (Eigen::Index d = 0; d < p.head_dim_v; ++d) {
            if (sees_nan) {
                EXPECT_TRUE(std::isnan(acc(row, d)));
            } else {
                EXPECT_NEAR(acc(row, d), expected(row, d), 1e-13);
            }
        }
    }
}

TEST(Replay, NaNInAQRowSpoilsThatRowAlone) {
    const Problem p = small_problem();
    Inputs inputs = make_inputs(p, InputKind::normal, 7);
    inputs.q_at(p, 0, 0, 3, 5) = float(nan);
    EndToEnd run(p, inputs);
    for (std::int64_t kv_tile = 0; kv_tile < p.kv_tiles(); ++kv_tile) {
        const TileEstimates tile = run.step(kv_tile);
        for (Eigen::Index row = 0; row < 16; ++row) {
            for (const Estimate* estimate : {&tile.s, &tile.m, &tile.p, &tile.l, &tile.acc})
                EXPECT_EQ(estimate->value.row(row).hasNaN(), row == 3)
                    << "row " << row << " tile " << kv_tile;
        }
    }
}

TEST(Replay, NaNInAKeySpoilsTheRowsThatSeeItFromItsTileOn) {
    Problem p = small_problem(Mask::causal);
    p.seqlen_kv = p.seqlen_q;
    Inputs inputs = make_inputs(p, InputKind::normal, 8);
    inputs.k_at(p, 0, 0, 20, 0) = float(nan);
    EndToEnd run(p, inputs, 2);
    EXPECT_FALSE(run.step(0).l.value.hasNaN());
    const TileEstimates second = run.step(1);
    for (Eigen::Index key = 0; key < 16; ++key)
        EXPECT_EQ(second.s.value.col(key).hasNaN(), key == 4) << "key " << 16 + key;
    EXPECT_TRUE(second.m.value.array().isNaN().all());
    // A maximum that has become NaN does not recover in a tile that is clean.
    EXPECT_TRUE(run.step(2).m.value.array().isNaN().all());
    EXPECT_TRUE(run.replay.output().value.array().isNaN().all());
}

TEST(Replay, NaNInAHiddenKeyDoesNotMatter) {
    Problem p = small_problem(Mask::causal);
    p.seqlen_kv = p.seqlen_q;
    Inputs inputs = make_inputs(p, InputKind::normal, 9);
    inputs.k_at(p, 0, 0, 15, 0) = float(nan);
    EndToEnd run(p, inputs);
    const TileEstimates tile = run.step(0);
    for (Eigen::Index row = 0; row < 16; ++row) {
        EXPECT_EQ(std::isnan(tile.m.value(row, 0)), row == 15);
        EXPECT_EQ(std::isnan(tile.l.value(row, 0)), row == 15);
    }
}

TEST(Replay, InfiniteScoresGoOnAsInTheKernel) {
    const Problem p = small_problem();
    Inputs inputs = make_inputs(p, InputKind::normal, 10);
    for (std::int64_t d = 0; d < p.head_dim; ++d) {
        inputs.q_at(p, 0, 0, 2, d) = 1;
        inputs.k_at(p, 0, 0, 4, d) = float(infinity);
        inputs.k_at(p, 0, 0, 5, d) = -float(infinity);
    }
    EndToEnd run(p, inputs);
    const TileEstimates tile = run.step(0);
    EXPECT_EQ(tile.s.value(2, 4), infinity);
    EXPECT_EQ(tile.s.value(2, 5), -infinity);
    EXPECT_EQ(tile.p.value(2, 5), 0);
    EXPECT_EQ(tile.m.value(2, 0), infinity);
    EXPECT_TRUE(std::isnan(tile.p.value(2, 4)));
}

/// A bound of p that is not a number would make every honest value wrong.
TEST(Replay, ScoresThatAreHardlyKnownLeaveAFiniteBound) {
    Problem p = small_problem();
    p.head_dim = 128;
    Inputs inputs = make_inputs(p, InputKind::normal, 11);
    for (float& q : inputs.q) q *= 4096;
    for (float& k : inputs.k) k *= 4096;
    EndToEnd run(p, inputs);
    double largest_s_error = 0;
    for (std::int64_t kv_tile = 0; kv_tile < p.kv_tiles(); ++kv_tile) {
        const TileEstimates tile = run.step(kv_tile);
        largest_s_error = std::max(largest_s_error, tile.s.error.maxCoeff());
        for (const Estimate* estimate : {&tile.p, &tile.l, &tile.acc}) {
            EXPECT_TRUE(estimate->value.allFinite());
            EXPECT_TRUE(estimate->error.allFinite());
        }
        const Estimate cast = cast_probabilities(run.replay.call(), tile.p, Dtype::f16);
        EXPECT_TRUE((cast.error.array() >= tile.p.error.array()).all());
    }
    EXPECT_GT(largest_s_error, 800) << "the scores are known too well for this test";
}

TEST(Replay, CastBoundLeavesMaskedCellsExact) {
    Estimate p{Matrix::Zero(1, 4), Matrix::Zero(1, 4)};
    p.value << 0, 0, 0.5, 0.3;
    p.error << 0, 0.25, 0.125, 0;
    const Estimate cast = cast_probabilities(HeadCall(), p, Dtype::f16);
    EXPECT_EQ(cast.value(0, 0), 0);
    EXPECT_EQ(cast.error(0, 0), 0);
    EXPECT_GE(cast.error(0, 1), 0.25);
    EXPECT_EQ(cast.value(0, 2), 0.5);
    EXPECT_GE(cast.error(0, 2), 0.125 + 0x1p-13);
    // A number that is exact is rounded: 0.3 is 1228.8 of the 2^-12 that float16 has there.
    EXPECT_EQ(cast.value(0, 3), 1229 * 0x1p-12);
    EXPECT_EQ(cast.error(0, 3), 0);
}

TEST(Replay, CastRoundsScaledProbabilities) {
    HeadCall call;
    call.units.p_scale = 448;
    Estimate p{Matrix::Constant(1, 1, 0.3), Matrix::Zero(1, 1)};
    // 0.3 * 448 = 134.4, and e4m3 has 128 and 144 there.
    EXPECT_EQ(cast_probabilities(call, p, Dtype::e4m3).value(0, 0), 128.0 / 448);
}

}  // namespace
}  // namespace tilescope::test
