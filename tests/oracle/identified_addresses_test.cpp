// Mistakes of an index that no table lists, made in the honest kernel's tiles: the formula is found and explains them.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "oracle/report/text.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 41;

/// Tiles of 32 x 32 with a head_dim that scores of one query block determine.
Call plain_call() {
    Problem problem = small_problem();
    problem.seqlen_q = 96;
    problem.seqlen_kv = 96;
    problem.block_m = problem.block_n = 32;
    problem.head_dim = problem.head_dim_v = 16;
    return make_call(problem, seed, {});
}

using Index = std::function<std::int64_t(std::int64_t)>;

/// Every tile of the stage with the elements of other rows and columns of it.
MemoryRecording moved(const Recording& honest, Stage stage, const Index& row_of, const Index& col_of) {
    MemoryRecording wrong = copy_of(honest);
    const TileShape shape = tile_shape(honest.problem(), stage);
    std::vector<float> right(std::size_t(shape.elements()));
    change_stage(wrong, stage, [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
        if (row == 0 && col == 0) honest.read_tile(stage, tile, right);
        return right[std::size_t(row_of(row) * shape.cols + col_of(col))];
    });
    return wrong;
}

std::string named(const Recording& recording) {
    const Report report = diagnosed(recording);
    if (report.diagnosis.causes.empty() || report.diagnosis.causes[0].structural) return "";
    return title_of(report.diagnosis.causes[0]);
}

TEST(Identified, RowsOfAStagedTile) {
    const MemoryRecording honest = recorded(plain_call());
    const auto same = [](std::int64_t x) { return x; };
    const auto exclusive = [](std::int64_t x) { return x ^ 5; };
    EXPECT_EQ(named(moved(honest, Stage::k, exclusive, same)), "operand_addresses (reads [row ^ 5][d])");
    EXPECT_EQ(named(moved(
                  honest, Stage::v, [](std::int64_t x) { return x / 4 * 4; }, same)),
              "operand_addresses (reads [row / 4 * 4][d])");
    // The same has a name, which comes first.
    const std::string turned = named(moved(honest, Stage::q, same, [](std::int64_t x) { return 15 - x; }));
    EXPECT_TRUE(turned.starts_with("columns_permuted")) << turned;
}

/// The array of Q is read with rows of 20 elements where it has 16: what a row is counted from shows in all heads.
TEST(Identified, RowsOfAllHeads) {
    const Call call = plain_call();
    const Problem& problem = call.problem;
    MemoryRecording wrong = copy_of(recorded(call));
    change_stage(wrong, Stage::q, [&](float right, const TileId& tile, std::int64_t row, std::int64_t d) {
        const std::int64_t query = tile.q_block * problem.block_m + row;
        const std::int64_t flat_row = (tile.batch * problem.heads + tile.head) * problem.seqlen_q + query;
        const auto at = std::size_t(flat_row * 20 + d);
        return at < call.inputs.q.size() ? call.inputs.q[at] : right;
    });
    EXPECT_EQ(
        named(wrong),
        "operand_addresses (reads [20 * flat_row + d], flat_row (batch * heads + head) * seqlen_q + query)");
}

/// Q of two batch entries and four heads, whose index is wrong in one of its numbers.
MemoryRecording loaded_with(const std::function<std::int64_t(const Problem&, const TileId&, std::int64_t row,
                                                             std::int64_t d)>& address) {
    Problem problem = plain_call().problem;
    problem.batch = 2;
    problem.heads = problem.heads_kv = 4;
    const Call call = make_call(problem, seed, {});
    MemoryRecording wrong = copy_of(recorded(call));
    change_stage(wrong, Stage::q, [&](float right, const TileId& tile, std::int64_t row, std::int64_t d) {
        const auto at = std::size_t(address(problem, tile, row, d));
        return at < call.inputs.q.size() ? call.inputs.q[at] : right;
    });
    return wrong;
}

TEST(Identified, OneNumberOfAnIndex) {
    const auto doubled = [](const Problem& problem, const TileId& tile, std::int64_t row, std::int64_t d) {
        const std::int64_t flat = (tile.batch * problem.heads + 2 * tile.head) * problem.seqlen_q;
        return (flat + tile.q_block * problem.block_m + row) * problem.head_dim + d;
    };
    EXPECT_EQ(named(loaded_with(doubled)), "operand_addresses (reads head * 2 in place of head)");
    const auto of_block = [](const Problem& problem, const TileId& tile, std::int64_t, std::int64_t d) {
        const std::int64_t flat = (tile.batch * problem.heads + tile.head) * problem.seqlen_q;
        return (flat + tile.q_block * problem.block_m + tile.q_block) * problem.head_dim + d;
    };
    EXPECT_EQ(named(loaded_with(of_block)),
              "operand_addresses (reads first_row + q_block in place of query)");
    const auto shorter = [](const Problem& problem, const TileId& tile, std::int64_t row, std::int64_t d) {
        const std::int64_t flat = (tile.batch * problem.heads + tile.head) * problem.seqlen_q;
        return (flat + tile.q_block * (problem.block_m - 1) + row) * problem.head_dim + d;
    };
    EXPECT_EQ(named(loaded_with(shorter)), "operand_addresses (reads query - q_block in place of query)");
}

TEST(Identified, AnArrayInAnotherOrder) {
    const auto rows_first = [](const Problem& problem, const TileId& tile, std::int64_t row, std::int64_t d) {
        const std::int64_t query = tile.q_block * problem.block_m + row;
        return ((query * problem.batch + tile.batch) * problem.heads + tile.head) * problem.head_dim + d;
    };
    EXPECT_EQ(named(loaded_with(rows_first)), "operand_addresses (reads [query][batch][head][d])");
}

/// Q whose rows are read behind a bound: most of what is read is zeros.
MemoryRecording with_queries(const Call& call,
                             const std::function<std::int64_t(const TileId&, std::int64_t row)>& query_of) {
    const Problem& problem = call.problem;
    MemoryRecording wrong = copy_of(recorded(call));
    change_stage(wrong, Stage::q, [&](float, const TileId& tile, std::int64_t row, std::int64_t d) {
        const std::int64_t query = query_of(tile, row);
        if (query >= problem.seqlen_q) return 0.0F;
        const std::int64_t flat = (tile.batch * problem.heads + tile.head) * problem.seqlen_q;
        return call.inputs.q[std::size_t((flat + query) * problem.head_dim + d)];
    });
    return wrong;
}

TEST(Identified, TilesThatAreCountedByTheRow) {
    const Call call = plain_call();
    const std::int64_t block = call.problem.block_m;
    EXPECT_EQ(named(with_queries(call, [=](const TileId&, std::int64_t row) { return row * block + row; })),
              "operand_addresses (reads row * block_m + row in place of query)");
    EXPECT_EQ(named(with_queries(
                  call, [=](const TileId& tile, std::int64_t row) { return row * block + tile.q_block; })),
              "operand_addresses (reads row * block_m + q_block in place of query)");
}

/// A single head does not show where rows are counted from: a leading dimension is one of the whole array.
TEST(Identified, ALeadingDimensionOfASingleHead) {
    Problem problem = plain_call().problem;
    problem.batch = problem.heads = problem.heads_kv = 1;
    const Call call = make_call(problem, seed, {});
    MemoryRecording wrong = copy_of(recorded(call));
    change_stage(wrong, Stage::q, [&](float right, const TileId& tile, std::int64_t row, std::int64_t d) {
        const auto at = std::size_t((tile.q_block * problem.block_m + row) * 17 + d);
        return at < call.inputs.q.size() ? call.inputs.q[at] : right;
    });
    EXPECT_EQ(
        named(wrong),
        "operand_addresses (reads [17 * flat_row + d], flat_row (batch * heads + head) * seqlen_q + query)");
}

using StoredAt = std::function<std::int64_t(std::int64_t row, std::int64_t col)>;

/// Q as a kernel leaves it that stores each element of a tile elsewhere in the one memory of all its tiles.
MemoryRecording stored_in_tiles(const Recording& honest, const StoredAt& address) {
    MemoryRecording wrong = copy_of(honest);
    const TileShape shape = tile_shape(honest.problem(), Stage::q);
    std::vector<float> right(std::size_t(shape.elements()));
    std::vector<float> memory(right.size(), 0.25f);
    change_stage(wrong, Stage::q, [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
        if (row == 0 && col == 0) {
            honest.read_tile(Stage::q, tile, right);
            for (std::int64_t i = 0; i < shape.elements(); ++i) {
                const std::int64_t at = address(i / shape.cols, i % shape.cols);
                if (at >= 0 && at < shape.elements()) memory[std::size_t(at)] = right[std::size_t(i)];
            }
        }
        return memory[std::size_t(row * shape.cols + col)];
    });
    return wrong;
}

TEST(Identified, StoresThatWriteOverOthers) {
    const MemoryRecording honest = recorded(plain_call());
    const std::int64_t ld = honest.problem().head_dim;
    EXPECT_EQ(named(stored_in_tiles(
                  honest, [=](std::int64_t row, std::int64_t d) { return row * ld + (d % 2 == 0 ? 0 : d); })),
              "elements_stored_elsewhere (stored to q[row][0], where d % 2 == 0)");
    EXPECT_EQ(named(stored_in_tiles(honest, [=](std::int64_t, std::int64_t d) { return d * ld + d; })),
              "elements_stored_elsewhere (stored to q[d][d])");
}

using OutputAddress = std::function<std::int64_t(const TileId&, std::int64_t query, std::int64_t d)>;

/// The output as a kernel leaves it that stores each element elsewhere, one query block after the other.
MemoryRecording stored_at(const Recording& honest, const OutputAddress& address) {
    const Problem& problem = honest.problem();
    const std::int64_t cols = problem.head_dim_v;
    const auto own = [&](const TileId& tile, std::int64_t query, std::int64_t d) {
        return ((tile.batch * problem.heads + tile.head) * problem.seqlen_q + query) * cols + d;
    };
    std::vector<float> memory(std::size_t(problem.batch * problem.heads * problem.seqlen_q * cols),
                              std::bit_cast<float>(unwritten_bits));
    MemoryRecording wrong = copy_of(honest);
    change_stage(wrong, Stage::o, [&](float right, const TileId& tile, std::int64_t row, std::int64_t col) {
        const std::int64_t at = address(tile, tile.q_block * problem.block_m + row, col);
        if (at >= 0 && at < std::ssize(memory)) memory[std::size_t(at)] = right;
        return right;
    });
    change_stage(wrong, Stage::o, [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
        return memory[std::size_t(own(tile, tile.q_block * problem.block_m + row, col))];
    });
    return wrong;
}

/// Indices of the store that are wrong by one name, one extent or one function; what is stored twice is that of the last.
TEST(Identified, IndexOfTheOutput) {
    // In float32 no number stands for another one.
    Problem precise = plain_call().problem;
    precise.dtype_o = Dtype::f32;
    precise.seqlen_kv = 64;
    const MemoryRecording honest = recorded(make_call(precise, seed, {}));
    const Problem& p = honest.problem();
    const auto head_of = [&](const TileId& tile) { return tile.batch * p.heads + tile.head; };
    const auto index = [&](std::int64_t head, std::int64_t length, std::int64_t query, std::int64_t d) {
        return (head * length + query) * p.head_dim_v + d;
    };
    const auto named_where = [&](const OutputAddress& address) {
        const std::string name = named(stored_at(honest, address));
        return name.substr(0, std::min(name.find(", elsewhere"), name.find(')')));
    };
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t d) {
                  return head_of(tile) * p.seqlen_q * p.head_dim_v + d * p.seqlen_q + query;
              }),
              "output_stored_elsewhere (stores to [batch][head][d][query]");
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t) {
                  return index(head_of(tile), p.seqlen_q, query, tile.q_block);
              }),
              "output_stored_elsewhere (stores to [batch][head][query][q_block]");
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t d) {
                  return index(head_of(tile), p.seqlen_q, query, d / 2 * 2);
              }),
              "output_stored_elsewhere (stores to [batch][head][query][d / 2 * 2]");
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t d) {
                  return index(head_of(tile), p.seqlen_kv, query, d);
              }),
              "output_stored_elsewhere (stores to its own place with seqlen_kv in place of seqlen_q");
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t d) {
                  return index(head_of(tile), p.seqlen_q - 2, query, d);
              }),
              "output_stored_elsewhere (stores to its own place with seqlen_q - 2 in place of seqlen_q");
    // Of some blocks alone, which write over others.
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t d) {
                  return tile.q_block == 1
                             ? head_of(tile) * p.seqlen_q * p.head_dim_v + d * p.seqlen_q + query
                             : index(head_of(tile), p.seqlen_q, query, d);
              }),
              "output_stored_elsewhere (stores to [batch][head][d][query], where q_block == 1");
}

/// Without a bound of the store the last block of a head writes over the next one. Of a q of zeros every key has the
/// same weight: what it stores is the mean of V.
TEST(Identified, RowsPastTheEnd) {
    Problem problem = plain_call().problem;
    problem.dtype_o = Dtype::f32;
    problem.mask = Mask::none;
    problem.seqlen_q = 90;
    const Call call = make_call(problem, seed, {});
    MemoryRecording wrong = copy_of(recorded(call));
    change_stage(wrong, Stage::o, [&](float right, const TileId& tile, std::int64_t row, std::int64_t d) {
        const std::int64_t before = tile.batch * problem.heads + tile.head - 1;
        if (before < 0 || tile.q_block > 0 || row >= 96 - 90) return right;
        const std::int64_t head_kv =
            before / problem.heads * problem.heads_kv + problem.head_kv(before % problem.heads);
        double sum = 0;
        for (std::int64_t key = 0; key < problem.seqlen_kv; ++key) {
            const std::int64_t at = (head_kv * problem.seqlen_kv + key) * problem.head_dim_v + d;
            sum += call.inputs.v[std::size_t(at)];
        }
        return float(sum / double(problem.seqlen_kv));
    });
    EXPECT_EQ(named(wrong), "rows_stored_past_end");
}

/// K is stored with two columns from one to the next: what runs past a row is written over by the next one.
TEST(Identified, StoredTwoApart) {
    const MemoryRecording honest = recorded(plain_call());
    MemoryRecording wrong = copy_of(honest);
    const std::int64_t cols = honest.problem().head_dim;
    const std::int64_t rows = honest.problem().block_n;
    std::vector<float> memory(std::size_t((rows + 1) * cols), 7.F);
    change_stage(wrong, Stage::k, [&](float, const TileId& tile, std::int64_t row, std::int64_t d) {
        for (std::int64_t i = 0; i < rows * cols && row == 0 && d == 0; ++i)
            memory[std::size_t(i / cols * cols + 2 * (i % cols))] =
                peek(honest, Stage::k, tile, i / cols, i % cols);
        return memory[std::size_t(row * cols + d)];
    });
    EXPECT_EQ(named(wrong), "elements_stored_elsewhere (stored to k[16 * row + 2 * d])");
}

/// One wrong row in each tile: together they tell.
TEST(Identified, ElementsOfOneRow) {
    const MemoryRecording honest = recorded(plain_call());
    MemoryRecording wrong = copy_of(honest);
    change_stage(wrong, Stage::p, [&](float right, const TileId& tile, std::int64_t row, std::int64_t col) {
        return row == 5 && col + 3 < 32 ? peek(honest, Stage::p, tile, row, col + 3) : right;
    });
    EXPECT_EQ(named(wrong), "elements_moved (holds [row][col + 3])");
}

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

/// As a copy leaves a tile that ends after so many elements, of memory without rows.
TEST(Identified, TheEndOfATileThatIsNotCopied) {
    MemoryRecording wrong = copy_of(recorded(plain_call()));
    const std::int64_t cols = wrong.problem().head_dim;
    change_stage(wrong, Stage::k, [&](float right, const TileId&, std::int64_t row, std::int64_t d) {
        return row * cols + d >= 9 * cols + 5 ? 0.0f : right;
    });
    const Report report = diagnosed(wrong);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(title_of(report.diagnosis.causes[0]), "rows_zeroed");
    EXPECT_EQ(report.diagnosis.causes[0].where, "where flat_index >= 149");
}

TEST(Identified, WhatAProductAdds) {
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

/// An index of the column and the head, which no tile by itself tells from one of the column alone.
TEST(Identified, ElementsByTheHead) {
    Problem problem = plain_call().problem;
    problem.heads = problem.heads_kv = 4;
    const MemoryRecording honest = recorded(make_call(problem, seed, {}));
    MemoryRecording wrong = copy_of(honest);
    change_stage(wrong, Stage::p, [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
        return peek(honest, Stage::p, tile, row, col ^ (tile.head & 3));
    });
    EXPECT_EQ(named(wrong), "elements_moved (holds [row][col ^ head % 4])");
}

/// Scores that the honest kernel computes from K with other elements in each tile, beside the K that it should be.
MemoryRecording scores_of(const Call& call, const Index& row_of, const Index& col_of) {
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

TEST(Identified, OperandsOfScores) {
    const auto same = [](std::int64_t x) { return x; };
    const auto coarse = [](std::int64_t x) { return x / 4 * 4; };
    EXPECT_EQ(named(scores_of(plain_call(), coarse, same)),
              "score_columns_permuted (permutation col / 4 * 4)");
    // Single elements of K are solved for.
    EXPECT_EQ(named(scores_of(plain_call(), same, coarse)),
              "operand_read_elsewhere (multiplies k[col][d / 4 * 4])");
}

/// Scores of rows of K that begin 18 elements apart where they lie 20 apart: what is between them was not dumped.
TEST(Identified, OperandsWithMemoryThatIsNotKnown) {
    const Call call = plain_call();
    const Problem& problem = call.problem;
    const std::int64_t dims = problem.head_dim;
    constexpr std::int64_t ld = 20;
    const MemoryRecording honest = recorded(call);
    MemoryRecording wrong = copy_of(honest);
    std::vector<float> q(std::size_t(tile_shape(problem, Stage::q).elements()));
    std::vector<float> k(std::size_t(tile_shape(problem, Stage::k).elements()));
    std::mt19937 random(7);
    std::vector<float> memory(std::size_t(problem.block_n * ld));
    for (float& between : memory) between = std::normal_distribution<float>()(random);
    change_stage(wrong, Stage::s, [&](float right, const TileId& tile, std::int64_t row, std::int64_t col) {
        if (row == 0 && col == 0) {
            honest.read_tile(Stage::q, tile, q);
            honest.read_tile(Stage::k, tile, k);
            for (std::int64_t i = 0; i < std::ssize(k); ++i)
                memory[std::size_t(i / dims * ld + i % dims)] = k[std::size_t(i)];
        }
        float sum = 0;
        for (std::int64_t d = 0; d < dims; ++d)
            sum += q[std::size_t(row * dims + d)] * memory[std::size_t(col * 18 + d)];
        return std::isinf(right) ? right : float(problem.sm_scale) * sum;
    });
    EXPECT_EQ(named(wrong), "operand_read_elsewhere (multiplies k[18 * col + d] of rows of 20)");
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
    const MemoryRecording honest = recorded(make_call(problem, seed, {}));
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
TEST(Identified, TermsOfASum) {
    EXPECT_EQ(named(products_of([](std::int64_t row, std::int64_t col, std::int64_t) {
                  return std::pair(col / 8 % 2 == 0 ? row ^ 12 : row, col);
              })),
              "operand_read_elsewhere (multiplies p[row ^ 12][col], for col % 16 < 8)");
    // Of all terms it would be the sum of another element as well.
    EXPECT_EQ(named(products_of([](std::int64_t row, std::int64_t col, std::int64_t d) {
                  return std::pair(col >= 8 ? d : row, col);
              })),
              "operand_read_elsewhere (multiplies p[d][col], for col >= 8)");
    EXPECT_EQ(named(products_of([](std::int64_t row, std::int64_t col, std::int64_t) {
                  return std::pair(row, col >= 5 ? col - 5 : col);
              })),
              "operand_read_elsewhere (multiplies p[row][col - 5], for col >= 5)");
}

/// Terms that are left out are not those of P that is hidden.
TEST(Identified, ZerosHaveNoAddress) {
    const MemoryRecording wrong = products_of(
        [](std::int64_t row, std::int64_t col, std::int64_t) {
            return col < 4 ? std::pair(std::int64_t(0), std::int64_t(31)) : std::pair(row, col);
        },
        Mask::causal);
    EXPECT_EQ(named(wrong), "terms_weighted (columns 0-3 0 times)");
}

/// The maximum of the scores of the row three further on: of the last three rows nothing is known.
TEST(Identified, ScoresOfAMaximum) {
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
    EXPECT_EQ(named(wrong), "sum_reads_elsewhere (reads s[row + 3][col])");
}

TEST(Identified, NoiseHasNoAddress) {
    const MemoryRecording honest = recorded(plain_call());
    for (const Stage stage : {Stage::q, Stage::k, Stage::v, Stage::s, Stage::acc}) {
        std::mt19937 draw(seed);
        const MemoryRecording wrong = moved(
            honest, stage, [&](std::int64_t) { return std::int64_t(draw() % 32); },
            [&](std::int64_t) { return std::int64_t(draw() % 16); });
        EXPECT_EQ(named(wrong), "") << stage_info(stage).name;
    }
}

}  // namespace
}  // namespace tilescope::test
