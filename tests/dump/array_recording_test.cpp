#include "dump/array_recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/error_of.h"

namespace tilescope {
namespace {

using test::error_of;
using testing::HasSubstr;

Problem small_problem() {
    Problem problem;
    problem.batch = 2;
    problem.heads = 4;
    problem.heads_kv = 2;
    problem.seqlen_q = 5;
    problem.seqlen_kv = 7;
    problem.head_dim = problem.head_dim_v = 3;
    problem.block_m = problem.block_n = 4;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o = Dtype::f32;
    return problem;
}

/// A number that says where an element belongs.
float coded(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t col) {
    return float(((batch * 10 + head) * 10 + row) * 10 + col);
}

/// Every element of an array with these strides holds its coded() number.
std::vector<float> fill(const HostArray& array, std::int64_t size, std::int64_t batch, std::int64_t heads,
                        std::int64_t rows, std::int64_t columns) {
    std::vector<float> values(std::size_t(size), -1.0F);
    for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t h = 0; h < heads; ++h)
            for (std::int64_t r = 0; r < rows; ++r)
                for (std::int64_t c = 0; c < columns; ++c)
                    values[std::size_t(b * array.strides[0] + h * array.strides[1] + r * array.strides[2] +
                                       c * array.strides[3])] = coded(b, h, r, c);
    return values;
}

TEST(ArrayRecording, ReadsInputsWhereverTheirElementsLie) {
    const Problem p = small_problem();
    const std::int64_t size = p.batch * p.heads * p.seqlen_q * p.head_dim;
    const HostArray first_heads = heads_first(nullptr, Dtype::f32, p.heads, p.seqlen_q, p.head_dim);
    const HostArray first_rows = rows_first(nullptr, Dtype::f32, p.heads, p.seqlen_q, p.head_dim);
    EXPECT_EQ(first_heads.strides, (std::array<std::int64_t, 4>{60, 15, 3, 1}));
    EXPECT_EQ(first_rows.strides, (std::array<std::int64_t, 4>{60, 3, 12, 1}));
    // q of [batch][seqlen][3][heads][head_dim], and one whose columns are apart.
    const HostArray packed = {nullptr, Dtype::f32, {180, 3, 36, 1}};
    const HostArray transposed = {nullptr, Dtype::f32, {60, 15, 1, 5}};
    for (HostArray array : {first_heads, first_rows, packed, transposed}) {
        const std::vector<float> values = fill(array, 3 * size, p.batch, p.heads, p.seqlen_q, p.head_dim);
        array.data = values.data();
        ArrayRecording call(p);
        call.set_input(Input::q, array);
        std::vector<float> rows(6);
        call.read_input(Input::q, 1, 2, 3, 2, rows);
        EXPECT_EQ(rows, (std::vector<float>{coded(1, 2, 3, 0), coded(1, 2, 3, 1), coded(1, 2, 3, 2),
                                            coded(1, 2, 4, 0), coded(1, 2, 4, 1), coded(1, 2, 4, 2)}));
    }
}

/// 0xffff is a NaN of both types of 16 bits, and of fp8 one that kernels store.
TEST(ArrayRecording, OutputsStillFilledWithOnesAreUnwritten) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e5m2}) {
        Problem p = small_problem();
        p.dtype_o = dtype;
        const auto bytes = std::size_t(dtype_info(dtype).bytes);
        std::vector<std::byte> o(120 * bytes, std::byte(0xff));
        std::fill_n(o.begin(), bytes, std::byte(0));                             // row 0, column 0
        std::fill_n(o.begin() + std::ptrdiff_t(bytes), bytes, std::byte(0x7f));  // column 1
        ArrayRecording call(p);
        call.set_output(Stage::o, heads_first(o.data(), dtype, p.heads, p.seqlen_q, p.head_dim_v));
        std::vector<float> tile(12);
        ASSERT_TRUE(call.read_tile(Stage::o, {}, tile));
        EXPECT_EQ(tile[0], 0.0f);
        EXPECT_FALSE(is_unwritten(tile[1]));
        for (std::size_t i = 2; i < tile.size(); ++i) {
            EXPECT_EQ(is_unwritten(tile[i]), dtype != Dtype::e5m2);
            EXPECT_TRUE(std::isnan(tile[i]));
        }
    }
}

TEST(ArrayRecording, HandsOutputsOutAsTilesWithUnwrittenPadding) {
    const Problem p = small_problem();
    HostArray o = rows_first(nullptr, Dtype::f32, p.heads, p.seqlen_q, p.head_dim_v);
    const std::vector<float> values = fill(o, 120, p.batch, p.heads, p.seqlen_q, p.head_dim_v);
    o.data = values.data();
    ArrayRecording call(p);
    EXPECT_FALSE(call.has_stage(Stage::o));
    call.set_output(Stage::o, o);
    EXPECT_TRUE(call.has_tile(Stage::o, {1, 3, 1, 0}));
    std::vector<float> tile(12);
    ASSERT_TRUE(call.read_tile(Stage::o, {1, 3, 1, 0}, tile));
    EXPECT_EQ(tile[0], coded(1, 3, 4, 0));
    EXPECT_EQ(tile[2], coded(1, 3, 4, 2));
    for (std::size_t i = 3; i < tile.size(); ++i) EXPECT_TRUE(is_unwritten(tile[i])) << i;
    EXPECT_FALSE(call.read_tile(Stage::lse, {0, 0, 0, 0}, tile));
}

TEST(ArrayRecording, ReadsNarrowTypes) {
    Problem p = small_problem();
    p.dtype_k = Dtype::bf16;
    std::vector<std::uint16_t> bits(2 * 2 * 7 * 3, 0x3f80);  // 1
    bits[1 * 42 + 1 * 21 + 6 * 3 + 2] = 0xc040;              // -3
    ArrayRecording call(p);
    call.set_input(Input::k, heads_first(bits.data(), Dtype::bf16, 2, 7, 3));
    std::vector<float> row(3);
    call.read_input(Input::k, 1, 1, 6, 1, row);
    EXPECT_EQ(row, (std::vector<float>{1, 1, -3}));
}

TEST(ArrayRecording, ReadsBatchEntriesThatLieOneAfterTheOther) {
    const Problem p = small_problem();
    // [total][heads][head_dim]: the second entry begins at row 4.
    HostArray q = {
        nullptr, Dtype::f32, {0, p.head_dim, p.heads * p.head_dim, 1}, {0, 4 * p.heads * p.head_dim}};
    std::vector<float> values(std::size_t(9 * p.heads * p.head_dim));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i);
    q.data = values.data();
    ArrayRecording call(p);
    call.set_input(Input::q, q);
    std::vector<float> row(3);
    call.read_input(Input::q, 1, 2, 3, 1, row);
    EXPECT_EQ(row, (std::vector<float>{90, 91, 92}));  // ((4 + 3) * 4 + 2) * 3
}

TEST(ArrayRecording, HandsOutNoTileThatIsNotSelected) {
    const Problem p = small_problem();
    const std::vector<float> values(120);
    ArrayRecording call(p);
    call.set_output(Stage::o, heads_first(values.data(), Dtype::f32, p.heads, p.seqlen_q, p.head_dim_v));
    Selection selection;
    selection.blocks = {{1, 2, {0, 0}}};
    call.select(selection);
    EXPECT_EQ(call.capture().selection, selection);
    std::vector<float> tile(12, 7);
    EXPECT_FALSE(call.may_hold({1, 2, 1, 0}));
    EXPECT_FALSE(call.read_tile(Stage::o, {1, 2, 1, 0}, tile));
    EXPECT_TRUE(call.may_hold({1, 2, 0, 0}));
    EXPECT_TRUE(call.read_tile(Stage::o, {1, 2, 0, 0}, tile));
    EXPECT_EQ(tile, std::vector<float>(12, 0));
}

TEST(ArrayRecording, HandsOutTilesThatLieNextToEachOther) {
    const Problem p = small_problem();  // 2 query blocks and 2 KV tiles of 4
    Selection selection;
    selection.head.ranges = {{1, 2}};
    selection.q_block.ranges = {{1, 1}};
    TileArray box = selected_box(p, Stage::s, selection);
    EXPECT_EQ(box.first, (TileId{0, 1, 1, 0}));
    EXPECT_EQ(box.last, (TileId{1, 2, 1, 1}));
    EXPECT_EQ(selected_box(p, Stage::o, {}).last, (TileId{1, 3, 1, 0}));
    // Batch entry, head and KV tile: 8 tiles of 16 elements.
    std::vector<float> values(8 * 16);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i);
    box.data = values.data();
    ArrayRecording call(p);
    call.set_tiles(Stage::s, box);
    EXPECT_TRUE(call.has_stage(Stage::s));
    EXPECT_FALSE(call.has_tile(Stage::s, {0, 0, 1, 0}));
    EXPECT_FALSE(call.has_tile(Stage::s, {0, 1, 0, 0}));
    std::vector<float> tile(16);
    EXPECT_TRUE(call.read_tile(Stage::s, {1, 1, 1, 1}, tile));
    EXPECT_EQ(tile.front(), 5 * 16.0F);  // (1 * 2 + 0) * 2 + 1 tiles before it
    box.last.head = 4;
    EXPECT_THAT(error_of([&] { call.set_tiles(Stage::s, box); }), HasSubstr("outside of the problem"));
    EXPECT_THAT(error_of([&] { call.set_tiles(Stage::o, box); }), HasSubstr("o is no stage with tiles"));
    selection.head.ranges = {{7, 7}};
    EXPECT_THAT(error_of([&] { selected_box(p, Stage::s, selection); }),
                HasSubstr("nothing of s is selected"));
}

/// The blocks of a selection of whole query blocks, one by one.
std::vector<TileId> blocks_of(const Selection& selection) {
    std::vector<TileId> blocks;
    for (const QBlocks& each : selection.blocks)
        blocks.push_back({each.batch, each.head, each.q_blocks.first, 0});
    return blocks;
}

TEST(SampleRows, HasTheFirstTheLastAndTheLongestBlock) {
    Problem p = small_problem();
    p.seqlen_q = p.seqlen_kv = 40;
    p.mask = Mask::causal;
    SideInputs lengths;
    lengths.seqlens_q = {40, 9};
    lengths.seqlens_kv = {40, 9};
    // 10 blocks of each head of the first entry, 3 of the second one.
    const std::vector<TileId> few = blocks_of(sample_rows(p, lengths, 12, 1));
    EXPECT_EQ(few, (std::vector<TileId>{{0, 0, 0, 0}, {0, 0, 9, 0}, {1, 3, 2, 0}}));
    EXPECT_EQ(sample_rows(p, lengths, 52 * 4, 1), Selection());
    EXPECT_EQ(sample_rows(p, lengths, 1 << 20, 1), Selection());
}

TEST(SampleRows, DrawsEvenlyAndTheSameForASeed) {
    Problem p = small_problem();
    p.batch = 1;
    p.heads = 8;
    p.seqlen_q = 400;
    const std::vector<TileId> drawn = blocks_of(sample_rows(p, {}, 43 * 4, 5));
    EXPECT_EQ(drawn, blocks_of(sample_rows(p, {}, 43 * 4, 5)));
    EXPECT_NE(drawn, blocks_of(sample_rows(p, {}, 43 * 4, 6)));
    EXPECT_LE(drawn.size(), 43U);
    std::vector<int> of_head(8);
    for (const TileId& block : drawn) {
        EXPECT_LT(block.q_block, 100);
        ++of_head[std::size_t(block.head)];
    }
    // 40 drawn from 40 stretches of 20 blocks: 5 of each head, and three by rule.
    for (const int count : of_head) EXPECT_THAT(count, testing::AllOf(testing::Ge(4), testing::Le(8)));
}

TEST(ArrayRecording, RefusesWhatTheCallDoesNotHave) {
    const float number = 0;
    ArrayRecording call(small_problem());
    const HostArray array = heads_first(&number, Dtype::f32, 1, 1, 1);
    const HostArray half = heads_first(&number, Dtype::f16, 1, 1, 1);
    EXPECT_THAT(error_of([&] { call.set_input(Input::q, half); }),
                HasSubstr("input q is f16 where the problem says f32"));
    EXPECT_THAT(error_of([&] { call.set_input(Input::k, {}); }), HasSubstr("input k is null"));
    EXPECT_THAT(error_of([&] { call.set_input(Input::dout, array); }),
                HasSubstr("input dout is none of the forward pass"));
    EXPECT_THAT(error_of([&] { call.set_output(Stage::dq, array); }),
                HasSubstr("dq is no output of this pass"));
    EXPECT_THAT(error_of([&] { call.set_output(Stage::s, array); }),
                HasSubstr("s is no output of this pass"));
    EXPECT_THAT(error_of([&] { call.set_output(Stage::o, half); }),
                HasSubstr("o is f16 where the problem says f32"));
    Problem bad = small_problem();
    bad.heads_kv = 3;
    EXPECT_THAT(error_of([&] { ArrayRecording{bad}; }), HasSubstr("arrays in memory"));
}

}  // namespace
}  // namespace tilescope
