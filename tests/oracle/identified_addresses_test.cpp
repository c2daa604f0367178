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

#include "tests/oracle/identified_index.h"

namespace tilescope::test {
namespace {

TEST(Identified, RowsOfAStagedTile) {
    const MemoryRecording honest = recorded(plain_call());
    const auto same = [](std::int64_t x) { return x; };
    const auto exclusive = [](std::int64_t x) { return x ^ 5; };
    EXPECT_EQ(named(moved(honest, Stage::k, exclusive, same)),
              "operand_addresses (k K[b, h / group, j ^ 5, d])");
    EXPECT_EQ(named(moved(
                  honest, Stage::v, [](std::int64_t x) { return x / 4 * 4; }, same)),
              "operand_addresses (v V[b, h / group, j / 4 * 4, e])");
    EXPECT_EQ(named(moved(honest, Stage::q, same, [](std::int64_t x) { return 15 - x; })),
              "columns_permuted (q Q[b, h, i, head_dim - 1 - d])");
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
    const std::string told = named_where(wrong);
    // 20 ((b heads + h) seqlen_q + i) + d; what is beyond the array was left as it was.
    EXPECT_EQ(told,
              "operand_addresses (q Q.flat[((b * heads + h) * seqlen_q + i) * head_dim + d + 1536 * b + 384 "
              "* h + 4 * i]) where not (b >= 1 and h == heads - 1)");
}

/// Q of two batch entries and four heads, whose index is wrong in one of its numbers.
MemoryRecording loaded_with(const std::function<std::int64_t(const Problem&, const TileId&, std::int64_t row,
                                                             std::int64_t d)>& address) {
    Problem problem = plain_call().problem;
    problem.batch = 2;
    problem.heads = problem.heads_kv = 4;
    const Call call = make_call(problem, index_seed, {});
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
    EXPECT_EQ(named_where(loaded_with(doubled)),
              "operand_addresses (q Q.flat[((b * heads + h) * seqlen_q + i) * head_dim + d + h * (seqlen_q * "
              "head_dim)]) where not (b >= 1 and h >= 2)");
    const auto of_block = [](const Problem& problem, const TileId& tile, std::int64_t, std::int64_t d) {
        const std::int64_t flat = (tile.batch * problem.heads + tile.head) * problem.seqlen_q;
        return (flat + tile.q_block * problem.block_m + tile.q_block) * problem.head_dim + d;
    };
    EXPECT_EQ(named(loaded_with(of_block)),
              "operand_addresses (q Q[b, h, i / block_m * block_m + i / block_m, d])");
    const auto shorter = [](const Problem& problem, const TileId& tile, std::int64_t row, std::int64_t d) {
        const std::int64_t flat = (tile.batch * problem.heads + tile.head) * problem.seqlen_q;
        return (flat + tile.q_block * (problem.block_m - 1) + row) * problem.head_dim + d;
    };
    EXPECT_EQ(
        named(loaded_with(shorter)),
        "operand_addresses (q Q.flat[((b * heads + h) * seqlen_q + i) * head_dim + d - 16 * (i / block_m)])");
}

TEST(Identified, AnArrayInAnotherOrder) {
    const auto rows_first = [](const Problem& problem, const TileId& tile, std::int64_t row, std::int64_t d) {
        const std::int64_t query = tile.q_block * problem.block_m + row;
        return ((query * problem.batch + tile.batch) * problem.heads + tile.head) * problem.head_dim + d;
    };
    EXPECT_EQ(named(loaded_with(rows_first)),
              "operand_addresses (q Q.flat[((i * batch + b) * heads + h) * head_dim + d])");
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
    EXPECT_EQ(
        named(with_queries(call, [=](const TileId&, std::int64_t row) { return row * block + row; })),
        "operand_addresses (q Q[b, h, 33 * (i % block_m), d] where 33 * (i % block_m) < seqlen_q else 0.0)");
    EXPECT_EQ(named(with_queries(
                  call, [=](const TileId& tile, std::int64_t row) { return row * block + tile.q_block; })),
              "operand_addresses (q Q[b, h, i % block_m * block_m + i / block_m, d] where i % block_m * "
              "block_m + i / block_m < seqlen_q else 0.0)");
}

/// A single head does not show where rows are counted from: a leading dimension is one of the whole array.
TEST(Identified, ALeadingDimensionOfASingleHead) {
    Problem problem = plain_call().problem;
    problem.batch = problem.heads = problem.heads_kv = 1;
    const Call call = make_call(problem, index_seed, {});
    MemoryRecording wrong = copy_of(recorded(call));
    change_stage(wrong, Stage::q, [&](float right, const TileId& tile, std::int64_t row, std::int64_t d) {
        const auto at = std::size_t((tile.q_block * problem.block_m + row) * 17 + d);
        return at < call.inputs.q.size() ? call.inputs.q[at] : right;
    });
    EXPECT_EQ(named_where(wrong),
              "operand_addresses (q Q.flat[((b * heads + h) * seqlen_q + i) * head_dim + d + i]) where i < "
              "seqlen_q - 5");
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
    const MemoryRecording honest = recorded(make_call(precise, index_seed, {}));
    const Problem& p = honest.problem();
    const auto head_of = [&](const TileId& tile) { return tile.batch * p.heads + tile.head; };
    const auto index = [&](std::int64_t head, std::int64_t length, std::int64_t query, std::int64_t d) {
        return (head * length + query) * p.head_dim_v + d;
    };
    const auto named_where = [&](const OutputAddress& address) {
        return test::named_where(stored_at(honest, address));
    };
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t d) {
                  return head_of(tile) * p.seqlen_q * p.head_dim_v + d * p.seqlen_q + query;
              }),
              "output_stored_elsewhere (o stored at o.flat[((b * heads + h) * head_dim_v + e) * seqlen_q + "
              "i]) everywhere");
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t) {
                  return index(head_of(tile), p.seqlen_q, query, tile.q_block);
              }),
              "output_stored_elsewhere (o stored at [b, h, i, i / block_m]) everywhere");
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t d) {
                  return index(head_of(tile), p.seqlen_q, query, d / 2 * 2);
              }),
              "output_stored_elsewhere (o stored at [b, h, i, e / 2 * 2]) everywhere");
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t d) {
                  return index(head_of(tile), p.seqlen_kv, query, d);
              }),
              "output_stored_elsewhere (o stored at o.flat[((b * heads + h) * seqlen_kv + i) * head_dim_v + "
              "e]) everywhere");
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t d) {
                  return index(head_of(tile), p.seqlen_q - 2, query, d);
              }),
              "output_stored_elsewhere (o stored at o.flat[((b * heads + h) * (seqlen_q - 2) + i) * "
              "head_dim_v + e]) everywhere");
    // Of some blocks alone, which write over others.
    EXPECT_EQ(named_where([&](const TileId& tile, std::int64_t query, std::int64_t d) {
                  return tile.q_block == 1
                             ? head_of(tile) * p.seqlen_q * p.head_dim_v + d * p.seqlen_q + query
                             : index(head_of(tile), p.seqlen_q, query, d);
              }),
              "output_stored_elsewhere (o stored at o.flat[((b * heads + h) * head_dim_v + e) * seqlen_q + "
              "i]) where i / block_m == 1");
}

/// Without a bound of the store the last block of a head writes over the next one. Of a q of zeros every key has the
/// same weight: what it stores is the mean of V.
TEST(Identified, RowsPastTheEnd) {
    Problem problem = plain_call().problem;
    problem.dtype_o = Dtype::f32;
    problem.mask = Mask::none;
    problem.seqlen_q = 90;
    const Call call = make_call(problem, index_seed, {});
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
    EXPECT_EQ(named(wrong),
              "rows_stored_past_end (o stored at [b, h, i, e] where i < (seqlen_q + (block_m - 1)) / block_m "
              "* block_m, what is behind the end last)");
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

/// An index of the column and the head, which no tile by itself tells from one of the column alone.
TEST(Identified, ElementsByTheHead) {
    Problem problem = plain_call().problem;
    problem.heads = problem.heads_kv = 4;
    const MemoryRecording honest = recorded(make_call(problem, index_seed, {}));
    MemoryRecording wrong = copy_of(honest);
    change_stage(wrong, Stage::p, [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
        return peek(honest, Stage::p, tile, row, col ^ (tile.head & 3));
    });
    EXPECT_EQ(named(wrong), "elements_moved (holds [row][col ^ head % 4])");
}

TEST(Identified, NoiseHasNoAddress) {
    const MemoryRecording honest = recorded(plain_call());
    for (const Stage stage : {Stage::q, Stage::k, Stage::v, Stage::s, Stage::acc}) {
        std::mt19937 draw(index_seed);
        const MemoryRecording wrong = moved(
            honest, stage, [&](std::int64_t) { return std::int64_t(draw() % 32); },
            [&](std::int64_t) { return std::int64_t(draw() % 16); });
        EXPECT_EQ(named(wrong), "") << stage_info(stage).name;
    }
}

}  // namespace
}  // namespace tilescope::test
