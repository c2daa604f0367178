// Products and sums that read other elements than they should, by an index that no table lists.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/oracle/identified_index.h"

namespace tilescope::test {
namespace {

/// The accumulators of a kernel that adds up something else than P V: what a KV tile adds is that of the element at `from`.
template <class From>
MemoryRecording adding(const Recording& honest, const From& from) {
    MemoryRecording wrong = copy_of(honest);
    const Problem& problem = honest.problem();
    const TileShape shape = tile_shape(problem, Stage::acc);
    const auto tile_of = [&](Stage stage, const TileId& tile) {
        std::vector<float> values(std::size_t(tile_shape(problem, stage).elements()));
        honest.read_tile(stage, tile, values);
        return values;
    };
    std::vector<double> sums(std::size_t(shape.elements()));
    std::vector<double> added(sums.size());
    change_stage(wrong, Stage::acc, [&](float, const TileId& tile, std::int64_t row, std::int64_t d) {
        if (row == 0 && d == 0) {
            const std::vector<float> after = tile_of(Stage::acc, tile);
            added.assign(after.begin(), after.end());
            if (tile.kv_tile == 0) sums.assign(sums.size(), 0);
            if (tile.kv_tile > 0) {
                TileId last = tile;
                --last.kv_tile;
                const std::vector<float> before = tile_of(Stage::acc, last);
                const std::vector<float> m_before = tile_of(Stage::m, last);
                const std::vector<float> m = tile_of(Stage::m, tile);
                for (std::size_t i = 0; i < sums.size(); ++i) {
                    const std::size_t of = i / std::size_t(shape.cols);
                    const double factor =
                        m[of] == m_before[of] ? 1 : std::exp(double(m_before[of]) - double(m[of]));
                    added[i] -= factor * double(before[i]);
                    sums[i] *= factor;
                }
            }
        }
        return float(sums[std::size_t(row * shape.cols + d)] += added[std::size_t(from(row, d))]);
    });
    return wrong;
}

TEST(IdentifiedProducts, WhatAProductAdds) {
    const MemoryRecording honest = recorded(plain_call());
    const std::int64_t ld = honest.problem().head_dim_v;
    EXPECT_EQ(named(adding(honest, [=](std::int64_t row, std::int64_t d) { return row * ld + (d ^ 4); })),
              "elements_moved (adds [row][d ^ 4])");
    // A guessed layout of fragments: within blocks the place is transposed.
    EXPECT_EQ(named(adding(honest,
                           [=](std::int64_t row, std::int64_t d) {
                               return (row / 8 * 8 + d % 8) * ld + d / 8 * 8 + row % 8;
                           })),
              "elements_moved (adds [(row & 24) ^ (d & 7)][(d & 8) ^ (row & 7)])");
}

/// Scores that the honest kernel computes from K with other elements in each tile, beside the K that it should be.
MemoryRecording scores_of(const Call& call, const IndexOf& row_of, const IndexOf& col_of) {
    Call other = call;
    const std::int64_t cols = call.problem.head_dim;
    const std::int64_t block = call.problem.block_n;
    for (std::size_t i = 0; i < other.inputs.k.size(); ++i) {
        const auto row = std::int64_t(i) / cols;
        const std::int64_t from = row / block * block + row_of(row % block);
        other.inputs.k[i] = call.inputs.k[std::size_t(from * cols + col_of(std::int64_t(i) % cols))];
    }
    const MemoryRecording scores = recorded(other);
    MemoryRecording wrong = copy_of(recorded(call));
    std::vector<float> values(std::size_t(tile_shape(call.problem, Stage::s).elements()));
    change_stage(wrong, Stage::s, [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
        if (row == 0 && col == 0) scores.read_tile(Stage::s, tile, values);
        return values[std::size_t(row * block + col)];
    });
    return wrong;
}

TEST(IdentifiedProducts, OperandsOfScores) {
    const auto same = [](std::int64_t x) { return x; };
    const auto coarse = [](std::int64_t x) { return x / 4 * 4; };
    EXPECT_EQ(named(scores_of(plain_call(), coarse, same)), "elements_moved (holds [row][col / 4 * 4])");
    // Single elements of K are solved for.
    EXPECT_EQ(named(scores_of(plain_call(), same, coarse)),
              "formula (s sum(d: q * k[b, h, i / block_m, j, d / 4 * 4]) * 0.25)");
}

/// What a score is computed for.
struct ScoredPlace {
    std::int64_t kv_head;
    std::int64_t query;
    std::int64_t key;
};

/// Scores of a causal kernel with grouped heads that are computed for other places; with the mask of that place, or of their own.
MemoryRecording scores_for(const std::function<void(const Problem&, const TileId&, std::int64_t row,
                                                    std::int64_t col, ScoredPlace&)>& other,
                           bool masked_there) {
    Problem problem = plain_call().problem;
    problem.heads = 4;
    problem.heads_kv = 2;
    problem.mask = Mask::causal;
    const Call call = make_call(problem, index_seed, {});
    MemoryRecording wrong = copy_of(recorded(call));
    change_stage(wrong, Stage::s, [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
        const ScoredPlace own{tile.head / 2, tile.q_block * problem.block_m + row,
                              tile.kv_tile * problem.block_n + col};
        ScoredPlace at = own;
        other(problem, tile, row, col, at);
        const ScoredPlace& seen = masked_there ? at : own;
        if (seen.key > seen.query) return -std::numeric_limits<float>::infinity();
        double sum = 0;
        for (std::int64_t d = 0; d < problem.head_dim; ++d) {
            const std::int64_t q =
                ((tile.batch * 4 + tile.head) * problem.seqlen_q + at.query) * problem.head_dim + d;
            const std::int64_t k =
                ((tile.batch * 2 + at.kv_head) * problem.seqlen_kv + at.key) * problem.head_dim + d;
            sum += double(call.inputs.q[std::size_t(q)]) * double(call.inputs.k[std::size_t(k)]);
        }
        return float(sum * problem.sm_scale);
    });
    return wrong;
}

TEST(IdentifiedProducts, ScoresOfOtherPlaces) {
    const auto first_key = [](const Problem& problem, const TileId& tile, std::int64_t, std::int64_t col,
                              ScoredPlace& at) { at.query = tile.kv_tile * problem.block_n + col; };
    EXPECT_EQ(
        named(scores_for(first_key, false)),
        "formula (s sum(d: q[b, h, j, d] * k[b, h, j / block_m, j, d]) * 0.25 where j <= i + seqlen_kv - "
        "seqlen_q else -inf)");
    const auto swizzled = [](const Problem&, const TileId&, std::int64_t, std::int64_t, ScoredPlace& at) {
        at.query ^= 3;
    };
    EXPECT_EQ(named(scores_for(swizzled, true)), "elements_moved (holds [row ^ 3][col])");
}

/// Which row of V a sum multiplies P with, and which of its columns.
using ReadOfV =
    std::function<std::pair<std::int64_t, std::int64_t>(const TileId&, std::int64_t col, std::int64_t d)>;

/// acc of all KV tiles by the definition, in a recording that has no operands.
MemoryRecording sums_of_v(const ReadOfV& read) {
    const Call call = plain_call();
    const Problem& problem = call.problem;
    const MemoryRecording honest = recorded(call);
    MemoryRecording wrong =
        with_stages(honest, {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o});
    change_stage(wrong, Stage::acc, [&](float, const TileId& tile, std::int64_t row, std::int64_t d) {
        const std::int64_t head = tile.batch * problem.heads_kv + problem.head_kv(tile.head);
        double acc = 0;
        TileId id = tile;
        double m_before = -std::numeric_limits<double>::infinity();
        for (id.kv_tile = 0; id.kv_tile <= tile.kv_tile; ++id.kv_tile) {
            const double m = peek(honest, Stage::m, id, row, 0);
            acc *= std::exp(m_before - m);
            m_before = m;
            for (std::int64_t col = 0; col < problem.block_n; ++col) {
                const auto [key, at] = read(id, col, d);
                const std::int64_t address = (head * problem.seqlen_kv + key) * problem.head_dim_v + at;
                acc += double(peek(honest, Stage::p, id, row, col)) *
                       double(call.inputs.v[std::size_t(address)]);
            }
        }
        return float(acc);
    });
    return wrong;
}

TEST(IdentifiedProducts, RowsOfVThatNobodyRecorded) {
    EXPECT_EQ(named(sums_of_v(
                  [](const TileId&, std::int64_t col, std::int64_t d) { return std::pair(col + col, d); })),
              "operand_addresses (acc acc * rescale + sum(j: p * V[b, h / group, 2 * (j % block_n), e]))");
    EXPECT_EQ(named(sums_of_v([](const TileId& tile, std::int64_t col, std::int64_t) {
                  return std::pair(tile.kv_tile * 32 + col, tile.kv_tile);
              })),
              "operand_addresses (acc acc * rescale + sum(j: p * V[b, h / group, j, j / block_n]))");
}

/// The element of P that a row of acc multiplies with element (col, d) of V.
using ReadOfP =
    std::function<std::pair<std::int64_t, std::int64_t>(std::int64_t row, std::int64_t col, std::int64_t d)>;

/// acc of one KV tile, summed up by the definition.
MemoryRecording products_of(const ReadOfP& read, Mask mask = Mask::none) {
    Problem problem = plain_call().problem;
    problem.seqlen_kv = problem.block_n;
    problem.mask = mask;
    problem.head_dim_v = problem.block_m;
    const MemoryRecording honest = recorded(make_call(problem, index_seed, {}));
    MemoryRecording wrong = copy_of(honest);
    std::vector<float> p(std::size_t(tile_shape(problem, Stage::p).elements()));
    std::vector<float> v(std::size_t(tile_shape(problem, Stage::v).elements()));
    change_stage(wrong, Stage::acc, [&](float, const TileId& tile, std::int64_t row, std::int64_t d) {
        if (row == 0 && d == 0) {
            honest.read_tile(Stage::p, tile, p);
            honest.read_tile(Stage::v, tile, v);
        }
        float sum = 0;
        for (std::int64_t col = 0; col < problem.block_n; ++col) {
            const auto [at_row, at_col] = read(row, col, d);
            sum += p[std::size_t(at_row * problem.block_n + at_col)] *
                   v[std::size_t(col * problem.head_dim_v + d)];
        }
        return sum;
    });
    return wrong;
}

/// An index of the row, the column and the term of a sum: no operand by itself has what is multiplied.
TEST(IdentifiedProducts, TermsOfASum) {
    EXPECT_EQ(named(products_of([](std::int64_t row, std::int64_t col, std::int64_t) {
                  return std::pair(col / 8 % 2 == 0 ? row ^ 12 : row, col);
              })),
              "formula (acc acc * rescale + sum(j: (p[b, h, i ^ 12, j] where j % 16 < 8 else p) * "
              "v[b, h, i / block_m, j, e]))");
    EXPECT_EQ(named(products_of([](std::int64_t row, std::int64_t col, std::int64_t) {
                  return std::pair(row, col >= 5 ? col - 5 : col);
              })),
              "formula (acc acc * rescale + sum(j: (p[b, h, i, j - 5] where j >= 5 else p) * "
              "v[b, h, i / block_m, j, e]))");
}

/// Terms that are left out are not those of P that is hidden.
TEST(IdentifiedProducts, ZerosHaveNoAddress) {
    const MemoryRecording wrong = products_of(
        [](std::int64_t row, std::int64_t col, std::int64_t) {
            return col < 4 ? std::pair(std::int64_t(0), std::int64_t(31)) : std::pair(row, col);
        },
        Mask::causal);
    EXPECT_EQ(
        named(wrong),
        "pv_slice_missing (acc acc * rescale + sum(j: p * v[b, h, i / block_m, j, e] where j % block_n / 4 "
        "!= 0 else 0.0))");
}

/// The maximum of the scores of the row three further on: of the last three rows nothing is known.
TEST(IdentifiedProducts, ScoresOfAMaximum) {
    const MemoryRecording honest = recorded(plain_call());
    MemoryRecording wrong = copy_of(honest);
    std::vector<float> before(32);
    std::vector<float> scores(32 * 32);
    change_stage(wrong, Stage::m, [&](float, const TileId& tile, std::int64_t row, std::int64_t) {
        if (row == 0) honest.read_tile(Stage::s, tile, scores);
        if (tile.kv_tile == 0) before[std::size_t(row)] = -infinity;
        const auto first = scores.begin() + std::ptrdiff_t(std::min<std::int64_t>(row + 3, 31) * 32);
        return before[std::size_t(row)] =
                   std::max(before[std::size_t(row)], *std::max_element(first, first + 32));
    });
    EXPECT_EQ(named(wrong),
              "formula (m max(m, max(j: s[b, h, i / block_m * block_m + (min(i % block_m, 28) + 3), j])))");
}

}  // namespace
}  // namespace tilescope::test
