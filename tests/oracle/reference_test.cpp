// The oracle's values against attention by its definition, in long double, and what it makes of NaN,
// infinities and rows that see nothing.

#include "oracle/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "oracle/budget.h"
#include "oracle/replay.h"
#include "tests/oracle/exact_attention.h"

namespace tilescope::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// `rows` rows of a head, from row `first` on.
Matrix rows_of(const std::vector<float>& values, std::int64_t head, std::int64_t seqlen, std::int64_t cols,
               std::int64_t first, std::int64_t rows) {
    Matrix matrix(rows, cols);
    for (std::int64_t i = 0; i < rows * cols; ++i)
        matrix.data()[i] = double(values[std::size_t((head * seqlen + first) * cols + i)]);
    return matrix;
}

/// A replay from the inputs alone of one query block, and the tiles it went through.
struct EndToEnd {
    const Problem& problem;
    const Inputs& inputs;
    std::int64_t batch;
    std::int64_t head;
    std::int64_t q_block;
    Units units{};
    Replay replay{problem, units, q_block, Stage::acc};

    TileEstimates step(std::int64_t kv_tile) {
        const std::int64_t q_head = batch * problem.heads + head;
        const std::int64_t kv_head = batch * problem.heads_kv + head * problem.heads_kv / problem.heads;
        const TileId tile{batch, head, q_block, kv_tile};
        const std::int64_t rows = tile_extent(problem, Stage::q, tile).rows;
        const std::int64_t keys = tile_extent(problem, Stage::k, tile).rows;
        const Operand q = make_operand(
            rows_of(inputs.q, q_head, problem.seqlen_q, problem.head_dim, q_block * problem.block_m, rows));
        const Operand k = make_operand(
            rows_of(inputs.k, kv_head, problem.seqlen_kv, problem.head_dim, kv_tile * problem.block_n, keys));
        const Matrix v = rows_of(inputs.v, kv_head, problem.seqlen_kv, problem.head_dim_v,
                                 kv_tile * problem.block_n, keys);
        return replay.step(kv_tile, {q, k, v}, {});
    }
};

void expect_close(double got, long double exact, double scale, const char* what) {
    if (std::isinf(exact)) {
        EXPECT_EQ(got, double(exact)) << what;
    } else {
        EXPECT_LE(std::abs(double((long double)got - exact)), scale * 0x1p-44) << what << " " << got;
    }
}

void expect_bound(double error, const char* what) {
    EXPECT_TRUE(error >= 0 && std::isfinite(error)) << what << " has the bound " << error;
}

void compare_tile(const EndToEnd& run, const TileEstimates& tile, const ExactAttention& exact,
                  std::int64_t kv_tile) {
    const Problem& p = run.problem;
    const std::int64_t last_key = std::min(p.seqlen_kv, (kv_tile + 1) * p.block_n);
    for (Eigen::Index i = 0; i < tile.m.value.rows(); ++i) {
        const std::int64_t row = run.q_block * p.block_m + i;
        const ExactAttention::Row after = exact.row_after(run.batch, run.head, row, last_key);
        expect_close(tile.m.value(i, 0), after.m, std::abs(double(after.m)) + 1, "m");
        expect_close(tile.l.value(i, 0), after.l, double(after.l), "l");
        for (Eigen::Index d = 0; d < p.head_dim_v; ++d) {
            expect_close(tile.acc.value(i, d), after.acc[std::size_t(d)], 10 * double(after.l), "acc");
            expect_bound(tile.acc.error(i, d), "acc");
        }
        for (Eigen::Index j = 0; j < tile.s.value.cols(); ++j) {
            const std::int64_t key = kv_tile * p.block_n + j;
            const bool visible = ExactAttention::visible(p, row, key);
            const auto s = visible ? exact.score(run.batch, run.head, row, key) : -infinity;
            expect_close(tile.s.value(i, j), s, double(std::abs(s)) + 10, "s");
            expect_close(tile.p.value(i, j), visible ? std::exp(s - after.m) : 0, 20, "p");
            expect_bound(tile.s.error(i, j), "s");
            expect_bound(tile.p.error(i, j), "p");
            if (!visible) {
                EXPECT_EQ(tile.p.value(i, j) + tile.p.error(i, j) + tile.s.error(i, j), 0);
            }
        }
        expect_bound(tile.m.error(i, 0), "m");
        expect_bound(tile.l.error(i, 0), "l");
    }
}

void compare_outputs(const EndToEnd& run, const ExactAttention& exact) {
    const Problem& p = run.problem;
    const Estimate o = run.replay.output();
    const Estimate lse = run.replay.log_sum_exp();
    for (Eigen::Index i = 0; i < o.value.rows(); ++i) {
        const std::int64_t row = run.q_block * p.block_m + i;
        const ExactAttention::Row all = exact.row_after(run.batch, run.head, row, p.seqlen_kv);
        const bool sees_nothing = exact.seen(row, p.seqlen_kv).empty();
        expect_close(lse.value(i, 0), sees_nothing ? -infinity : all.m + std::log(all.l),
                     std::abs(double(all.m)) + 10, "lse");
        // Where l may be 0 as far as the inputs tell, anything may be in o and lse.
        EXPECT_GE(lse.error(i, 0), 0);
        for (Eigen::Index d = 0; d < p.head_dim_v; ++d) {
            expect_close(o.value(i, d), sees_nothing ? 0 : all.acc[std::size_t(d)] / all.l, 10, "o");
            EXPECT_GE(o.error(i, d), 0);
        }
    }
}

TEST(Reference, EqualsTheDefinitionOnRandomProblems) {
    std::int64_t rows_that_see_nothing = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        const Problem problem = random_problem(seed);
        const Inputs inputs = make_inputs(problem, InputKind(seed % input_kinds), seed);
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(problem));
        const ExactAttention exact(problem, inputs);
        const std::int64_t batch = problem.batch - 1;
        const std::int64_t head = problem.heads - 1;
        for (std::int64_t q_block = 0; q_block < problem.q_blocks(); ++q_block) {
            EndToEnd run{problem, inputs, batch, head, q_block};
            for (std::int64_t kv_tile = 0; kv_tile < problem.kv_tiles(); ++kv_tile)
                compare_tile(run, run.step(kv_tile), exact, kv_tile);
            compare_outputs(run, exact);
        }
        for (std::int64_t row = 0; row < problem.seqlen_q; ++row)
            rows_that_see_nothing += exact.seen(row, problem.seqlen_kv).empty();
    }
    EXPECT_GT(rows_that_see_nothing, 0) << "no problem had a row that is masked whole";
}

TEST(Reference, RowThatSeesNothingHasZeroOutputAndNoNaN) {
    Problem p = small_problem(Mask::causal);
    p.seqlen_q = 40;
    p.seqlen_kv = 8;
    const Inputs inputs = make_inputs(p, InputKind::normal, 5);
    EndToEnd run{p, inputs, 0, 0, 0};
    const TileEstimates tile = run.step(0);
    for (const Estimate* estimate : {&tile.m, &tile.p, &tile.l, &tile.acc}) {
        EXPECT_FALSE(estimate->value.hasNaN());
        EXPECT_LE(estimate->error.maxCoeff(), estimate == &tile.acc ? 17 * 0x1p-126 : 0);
    }
    EXPECT_TRUE((tile.m.value.array() == -infinity).all());
    EXPECT_TRUE((run.replay.output().value.array() == 0).all());
    EXPECT_TRUE((run.replay.log_sum_exp().value.array() == -infinity).all());
}

TEST(Reference, NaNInMaskedRowsOfVDoesNotReachAcc) {
    Problem p = small_problem(Mask::causal);
    p.seqlen_kv = p.seqlen_q;
    Inputs inputs = make_inputs(p, InputKind::normal, 6);
    Inputs clean = inputs;
    for (std::int64_t key = 10; key < p.seqlen_kv; ++key) {
        for (std::int64_t d = 0; d < p.head_dim_v; ++d) inputs.v_at(p, 0, 0, key, d) = float(nan);
    }
    EndToEnd poisoned{p, inputs, 0, 0, 0};
    EndToEnd healthy{p, clean, 0, 0, 0};
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

TEST(Reference, NaNInAQRowSpoilsThatRowAlone) {
    const Problem p = small_problem();
    Inputs inputs = make_inputs(p, InputKind::normal, 7);
    inputs.q_at(p, 0, 0, 3, 5) = float(nan);
    EndToEnd run{p, inputs, 0, 0, 0};
    for (std::int64_t kv_tile = 0; kv_tile < p.kv_tiles(); ++kv_tile) {
        const TileEstimates tile = run.step(kv_tile);
        for (Eigen::Index row = 0; row < 16; ++row) {
            for (const Estimate* estimate : {&tile.s, &tile.m, &tile.p, &tile.l, &tile.acc})
                EXPECT_EQ(estimate->value.row(row).hasNaN(), row == 3)
                    << "row " << row << " tile " << kv_tile;
        }
    }
}

TEST(Reference, NaNInAKeySpoilsTheRowsThatSeeItFromItsTileOn) {
    Problem p = small_problem(Mask::causal);
    p.seqlen_kv = p.seqlen_q;
    Inputs inputs = make_inputs(p, InputKind::normal, 8);
    inputs.k_at(p, 0, 0, 20, 0) = float(nan);
    EndToEnd run{p, inputs, 0, 0, 2};
    EXPECT_FALSE(run.step(0).l.value.hasNaN());
    const TileEstimates second = run.step(1);
    for (Eigen::Index key = 0; key < 16; ++key)
        EXPECT_EQ(second.s.value.col(key).hasNaN(), key == 4) << "key " << 16 + key;
    EXPECT_TRUE(second.m.value.array().isNaN().all());
    // A maximum that has become NaN does not recover in a tile that is clean.
    EXPECT_TRUE(run.step(2).m.value.array().isNaN().all());
    EXPECT_TRUE(run.replay.output().value.array().isNaN().all());
}

TEST(Reference, NaNInAHiddenKeyDoesNotMatter) {
    Problem p = small_problem(Mask::causal);
    p.seqlen_kv = p.seqlen_q;
    Inputs inputs = make_inputs(p, InputKind::normal, 9);
    inputs.k_at(p, 0, 0, 15, 0) = float(nan);
    EndToEnd run{p, inputs, 0, 0, 0};
    const TileEstimates tile = run.step(0);
    for (Eigen::Index row = 0; row < 16; ++row) {
        EXPECT_EQ(std::isnan(tile.m.value(row, 0)), row == 15);
        EXPECT_EQ(std::isnan(tile.l.value(row, 0)), row == 15);
    }
}

TEST(Reference, InfiniteScoresGoOnAsInTheKernel) {
    const Problem p = small_problem();
    Inputs inputs = make_inputs(p, InputKind::normal, 10);
    for (std::int64_t d = 0; d < p.head_dim; ++d) {
        inputs.q_at(p, 0, 0, 2, d) = 1;
        inputs.k_at(p, 0, 0, 4, d) = float(infinity);
        inputs.k_at(p, 0, 0, 5, d) = -float(infinity);
    }
    EndToEnd run{p, inputs, 0, 0, 0};
    const TileEstimates tile = run.step(0);
    EXPECT_EQ(tile.s.value(2, 4), infinity);
    EXPECT_EQ(tile.s.value(2, 5), -infinity);
    EXPECT_EQ(tile.p.value(2, 5), 0);
    EXPECT_EQ(tile.m.value(2, 0), infinity);
    EXPECT_TRUE(std::isnan(tile.p.value(2, 4)));
}

/// A bound of p that is not a number would make every honest value wrong.
TEST(Reference, ScoresThatAreHardlyKnownLeaveAFiniteBound) {
    Problem p = small_problem();
    p.head_dim = 128;
    Inputs inputs = make_inputs(p, InputKind::normal, 11);
    for (float& q : inputs.q) q *= 4096;
    for (float& k : inputs.k) k *= 4096;
    EndToEnd run{p, inputs, 0, 0, 0};
    double largest_s_error = 0;
    for (std::int64_t kv_tile = 0; kv_tile < p.kv_tiles(); ++kv_tile) {
        const TileEstimates tile = run.step(kv_tile);
        largest_s_error = std::max(largest_s_error, tile.s.error.maxCoeff());
        for (const Estimate* estimate : {&tile.p, &tile.l, &tile.acc}) {
            EXPECT_TRUE(estimate->value.allFinite());
            EXPECT_TRUE(estimate->error.allFinite());
        }
        const Estimate cast = with_cast_bound(tile.p, Dtype::f16);
        EXPECT_TRUE((cast.error.array() >= tile.p.error.array()).all());
    }
    EXPECT_GT(largest_s_error, 800) << "the scores are known too well for this test";
}

TEST(Reference, CastBoundLeavesMaskedCellsExact) {
    Estimate p{Matrix::Zero(1, 3), Matrix::Zero(1, 3)};
    p.value << 0, 0, 0.5;
    p.error << 0, 0.25, 0;
    const Estimate cast = with_cast_bound(p, Dtype::f16);
    EXPECT_EQ(cast.error(0, 0), 0);
    EXPECT_GE(cast.error(0, 1), 0.25);
    EXPECT_GE(cast.error(0, 2), 0x1p-13);
}

}  // namespace
}  // namespace tilescope::test
