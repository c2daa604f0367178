#include "dump/schema.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "dump/schema/error.h"
#include "tests/dump/small_problem.h"

namespace tilescope {
namespace {

using Dims = std::vector<std::int64_t>;

TEST(Schema, UnwrittenIsAQuietNanThatNoNarrowTypeDecodesTo) {
    const float unwritten = std::bit_cast<float>(unwritten_bits);
    EXPECT_TRUE(std::isnan(unwritten));
    EXPECT_TRUE(is_unwritten(unwritten));
    EXPECT_NE(unwritten_bits & 0x00400000u, 0u);
    EXPECT_FALSE(is_unwritten(std::bit_cast<float>(unwritten_bits | 0x80000000u)));
    EXPECT_FALSE(is_unwritten(std::numeric_limits<float>::quiet_NaN()));
    EXPECT_FALSE(is_unwritten(0.0f));
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2}) {
        for (std::uint32_t bits = 0; bits < 65536; ++bits) {
            ASSERT_FALSE(is_unwritten(decode(dtype, bits)));
        }
    }
}

TEST(Schema, StagesAreInOrderOfComputation) {
    const char* names[] = {"q",   "k",    "v",     "s",  "m",  "p",  "l",  "acc", "o",
                           "lse", "dout", "delta", "dp", "ds", "dq", "dk", "dv"};
    for (int i = 0; i < built_in_stages; ++i) {
        const StageInfo& info = all_stages()[std::size_t(i)];
        EXPECT_EQ(int(info.stage), i);
        EXPECT_EQ(info.name, names[i]);
        EXPECT_EQ(&stage_info(Stage(i)), &info);
        EXPECT_EQ(stage_from_name(names[i]), Stage(i));
    }
    EXPECT_EQ(stage_from_name("S"), std::nullopt);
    EXPECT_EQ(stage_from_name(""), std::nullopt);
}

/// The table of the file layout: dims, then the chunk, for B=2 H=6 Sq=10 Skv=13 D=8 Dv=7, blocks 4 x 5.
TEST(Schema, DatasetsHaveTheShapesOfTheFileLayout) {
    struct Row {
        Stage stage;
        const char* dataset;
        Dims dims;
        Dims chunk;
        TileShape tile;
        Dims last_chunk;
        TileShape last_extent;
    };
    const Row rows[] = {
        {Stage::q, "/tiles/q", {2, 6, 10, 8}, {1, 1, 4, 8}, {4, 8}, {1, 5, 2, 0}, {2, 8}},
        {Stage::k, "/tiles/k", {2, 6, 3, 13, 8}, {1, 1, 1, 5, 8}, {5, 8}, {1, 5, 2, 2, 0}, {3, 8}},
        {Stage::v, "/tiles/v", {2, 6, 3, 13, 7}, {1, 1, 1, 5, 7}, {5, 7}, {1, 5, 2, 2, 0}, {3, 7}},
        {Stage::s, "/tiles/s", {2, 6, 10, 13}, {1, 1, 4, 5}, {4, 5}, {1, 5, 2, 2}, {2, 3}},
        {Stage::p, "/tiles/p", {2, 6, 10, 13}, {1, 1, 4, 5}, {4, 5}, {1, 5, 2, 2}, {2, 3}},
        {Stage::m, "/tiles/m", {2, 6, 3, 10}, {1, 1, 1, 4}, {4, 1}, {1, 5, 2, 2}, {2, 1}},
        {Stage::l, "/tiles/l", {2, 6, 3, 10}, {1, 1, 1, 4}, {4, 1}, {1, 5, 2, 2}, {2, 1}},
        {Stage::acc, "/tiles/acc", {2, 6, 3, 10, 7}, {1, 1, 1, 4, 7}, {4, 7}, {1, 5, 2, 2, 0}, {2, 7}},
        {Stage::o, "/outputs/o", {2, 6, 10, 7}, {1, 1, 4, 7}, {4, 7}, {1, 5, 2, 0}, {2, 7}},
        {Stage::lse, "/outputs/lse", {2, 6, 10}, {1, 1, 4}, {4, 1}, {1, 5, 2}, {2, 1}},
        {Stage::dout, "/tiles/dout", {2, 6, 10, 7}, {1, 1, 4, 7}, {4, 7}, {1, 5, 2, 0}, {2, 7}},
        {Stage::delta, "/tiles/delta", {2, 6, 10}, {1, 1, 4}, {4, 1}, {1, 5, 2}, {2, 1}},
        {Stage::dp, "/tiles/dp", {2, 6, 10, 13}, {1, 1, 4, 5}, {4, 5}, {1, 5, 2, 2}, {2, 3}},
        {Stage::ds, "/tiles/ds", {2, 6, 10, 13}, {1, 1, 4, 5}, {4, 5}, {1, 5, 2, 2}, {2, 3}},
        {Stage::dq, "/outputs/dq", {2, 6, 10, 8}, {1, 1, 4, 8}, {4, 8}, {1, 5, 2, 0}, {2, 8}},
        {Stage::dk, "/outputs/dk", {2, 3, 13, 8}, {1, 1, 5, 8}, {5, 8}, {1, 2, 2, 0}, {3, 8}},
        {Stage::dv, "/outputs/dv", {2, 3, 13, 7}, {1, 1, 5, 7}, {5, 7}, {1, 2, 2, 0}, {3, 7}},
    };
    Problem problem = test::small_problem();
    for (const Row& row : rows) {
        SCOPED_TRACE(row.dataset);
        problem.direction = stage_info(row.stage).forward ? Direction::forward : Direction::backward;
        EXPECT_EQ(dataset_of(stage_info(row.stage)), row.dataset);
        EXPECT_EQ(dataset_shape(problem, row.stage).dims, row.dims);
        EXPECT_EQ(dataset_shape(problem, row.stage).chunk, row.chunk);
        EXPECT_EQ(tile_shape(problem, row.stage), row.tile);
        EXPECT_EQ(tile_extent(problem, row.stage, {0, 0, 0, 0}), row.tile);
        const TileId last = tile_at(problem, row.stage, tile_count(problem, row.stage) - 1);
        EXPECT_EQ(chunk_index(problem, row.stage, last), row.last_chunk);
        EXPECT_EQ(tile_extent(problem, row.stage, last), row.last_extent);
    }
}

TEST(Schema, DkAndDvCanBeOfAQueryHead) {
    Problem problem = test::small_problem();
    problem.direction = Direction::backward;
    problem.dkv_per_head = true;
    EXPECT_EQ(dataset_shape(problem, Stage::dk).dims, (Dims{2, 6, 13, 8}));
    EXPECT_EQ(dataset_shape(problem, Stage::dv).dims, (Dims{2, 6, 13, 7}));
    EXPECT_EQ(tile_at(problem, Stage::dk, tile_count(problem, Stage::dk) - 1), (TileId{1, 5, 0, 2}));
}

TEST(Schema, QueryHeadsOfATile) {
    Problem problem = test::small_problem();
    const auto expect = [&](Stage stage, std::int64_t head, std::int64_t first, std::int64_t last) {
        const HeadRange range = query_heads(problem, stage, head);
        EXPECT_EQ(range.first, first) << head;
        EXPECT_EQ(range.last, last) << head;
    };
    expect(Stage::dk, 0, 0, 2);
    expect(Stage::dv, 2, 4, 6);
    expect(Stage::dq, 4, 4, 5);
    problem.dkv_per_head = true;
    expect(Stage::dk, 4, 4, 5);
}

TEST(Schema, InterleavedQueryHeadsOfATile) {
    Problem problem = test::small_problem();
    problem.head_grouping = HeadGrouping::interleaved;
    const std::vector<std::int64_t> kv_heads = {0, 1, 2, 0, 1, 2};
    for (std::size_t head = 0; head < kv_heads.size(); ++head) {
        const auto query_head = std::int64_t(head);
        EXPECT_EQ(problem.head_kv(query_head), kv_heads[head]);
        EXPECT_EQ(stage_head(problem, Stage::dk, query_head), kv_heads[head]);
        EXPECT_EQ(number_in_group(problem, Stage::dk, query_head), query_head / 3);
        EXPECT_EQ(stage_head(problem, Stage::dq, query_head), query_head);
    }
    const HeadRange heads = query_heads(problem, Stage::dv, 1);
    ASSERT_EQ(heads.size(), 2);
    EXPECT_EQ(heads.at(0), 1);
    EXPECT_EQ(heads.at(1), 4);
    for (std::int64_t head = 0; head < 6; ++head) EXPECT_EQ(heads.contains(head), head == 1 || head == 4);
    problem.dkv_per_head = true;
    EXPECT_EQ(query_heads(problem, Stage::dv, 4).first, 4);
    EXPECT_EQ(query_heads(problem, Stage::dv, 4).size(), 1);
}

TEST(Schema, EachDirectionHasItsStages) {
    const std::set<std::string_view> forward = {"q", "k", "v", "s", "m", "p", "l", "acc", "o", "lse"};
    const std::set<std::string_view> backward = {"q",  "k",  "v",  "s",  "p",  "dout",
                                                 "dp", "ds", "dq", "dk", "dv", "delta"};
    for (const StageInfo& info : all_stages()) {
        EXPECT_EQ(has_stage(Direction::forward, info.stage), forward.contains(info.name)) << info.name;
        EXPECT_EQ(has_stage(Direction::backward, info.stage), backward.contains(info.name)) << info.name;
        const Problem problem = test::small_problem();
        EXPECT_EQ(tile_count(problem, info.stage) > 0, forward.contains(info.name)) << info.name;
    }
    for (const Direction direction : {Direction::forward, Direction::backward}) {
        std::set<std::string_view> names;
        for (const StageInfo& info : stages_of(direction)) names.insert(info.name);
        EXPECT_EQ(names, direction == Direction::forward ? forward : backward);
    }
}

/// Partial sums of four lanes stand side by side in the last dimension; nothing else changes.
TEST(Schema, LanesOfLAreItsLastDimension) {
    Problem problem = test::small_problem();
    problem.l_lanes = 4;
    EXPECT_EQ(dataset_shape(problem, Stage::l).dims, (Dims{2, 6, 3, 10, 4}));
    EXPECT_EQ(dataset_shape(problem, Stage::l).chunk, (Dims{1, 1, 1, 4, 4}));
    EXPECT_EQ(tile_shape(problem, Stage::l), (TileShape{4, 4}));
    EXPECT_EQ(tile_extent(problem, Stage::l, {1, 5, 2, 2}), (TileShape{2, 4}));
    EXPECT_EQ(chunk_index(problem, Stage::l, {1, 5, 2, 1}), (Dims{1, 5, 1, 2, 0}));
    EXPECT_EQ(dataset_shape(problem, Stage::m).dims, (Dims{2, 6, 3, 10}));
    EXPECT_EQ(tile_shape(problem, Stage::lse), (TileShape{4, 1}));
}

/// As mma.sync leaves a row of 16 columns: each lane of four holds two neighbours of every eight.
TEST(Schema, LanesTakeColumnsInTurns) {
    Problem problem;
    problem.l_lanes = 4;
    problem.l_lane_columns = 2;
    const std::int64_t expected[] = {0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 2, 3, 3};
    for (std::int64_t column = 0; column < 16; ++column) EXPECT_EQ(problem.l_lane(column), expected[column]);
}

void expect_distinct_chunks(const Problem& problem) {
    for (const StageInfo& info : stages_of(problem.direction)) {
        SCOPED_TRACE(info.name);
        const DatasetShape shape = dataset_shape(problem, info.stage);
        std::int64_t chunks = 1;
        for (std::size_t i = 0; i < shape.dims.size(); ++i) {
            chunks *= (shape.dims[i] + shape.chunk[i] - 1) / shape.chunk[i];
        }
        ASSERT_EQ(tile_count(problem, info.stage), chunks);
        std::set<Dims> seen;
        TileId previous = {-1, 0, 0, 0};
        for (std::int64_t index = 0; index < chunks; ++index) {
            const TileId tile = tile_at(problem, info.stage, index);
            EXPECT_LT(previous, tile);
            previous = tile;
            const Dims chunk = chunk_index(problem, info.stage, tile);
            ASSERT_EQ(chunk.size(), shape.dims.size());
            EXPECT_TRUE(seen.insert(chunk).second);
            std::int64_t inside = 1;
            for (std::size_t i = 0; i < chunk.size(); ++i) {
                const std::int64_t first = chunk[i] * shape.chunk[i];
                ASSERT_LT(first, shape.dims[i]);
                inside *= std::min(shape.chunk[i], shape.dims[i] - first);
            }
            EXPECT_EQ(tile_extent(problem, info.stage, tile).elements(), inside);
        }
    }
}

TEST(Schema, HeadsShareKvHeadsInGroups) {
    const Problem problem = test::small_problem();
    const std::int64_t expected[] = {0, 0, 1, 1, 2, 2};
    for (std::int64_t head = 0; head < 6; ++head) EXPECT_EQ(problem.head_kv(head), expected[head]);
}

TEST(Schema, TilesOfAStageAreDistinctChunksInsideItsDataset) {
    expect_distinct_chunks(test::small_problem());
    Problem with_lanes = test::small_problem();
    with_lanes.l_lanes = 3;
    expect_distinct_chunks(with_lanes);
    Problem per_head = test::small_problem();
    per_head.direction = Direction::backward;
    per_head.dkv_per_head = true;
    expect_distinct_chunks(per_head);
}

struct BadProblem {
    const char* what;
    std::function<void(Problem&)> spoil;
};

TEST(Schema, ValidateNamesWhatIsWrong) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    const BadProblem bad_problems[] = {
        {"batch is 0", [](Problem& p) { p.batch = 0; }},
        {"heads is -1", [](Problem& p) { p.heads = -1; }},
        {"heads_kv is 0", [](Problem& p) { p.heads_kv = 0; }},
        {"seqlen_q is 1099511627776", [](Problem& p) { p.seqlen_q = std::int64_t(1) << 40; }},
        {"seqlen_kv is 2147483648", [](Problem& p) { p.seqlen_kv = std::int64_t(1) << 31; }},
        {"head_dim is -9223372036854775808",
         [](Problem& p) { p.head_dim = std::numeric_limits<std::int64_t>::min(); }},
        {"head_dim_v is 0", [](Problem& p) { p.head_dim_v = 0; }},
        {"block_m is 0", [](Problem& p) { p.block_m = 0; }},
        {"block_n is 0", [](Problem& p) { p.block_n = 0; }},
        {"heads (6) is not a multiple of heads_kv (4)", [](Problem& p) { p.heads_kv = 4; }},
        {"sm_scale", [](Problem& p) { p.sm_scale = 0; }},
        {"sm_scale", [](Problem& p) { p.sm_scale = -1; }},
        {"sm_scale", [=](Problem& p) { p.sm_scale = nan; }},
        {"sm_scale", [=](Problem& p) { p.sm_scale = infinity; }},
        {"logits_soft_cap is -1, neither 0 nor a finite positive number",
         [](Problem& p) { p.logits_soft_cap = -1; }},
        {"logits_soft_cap", [=](Problem& p) { p.logits_soft_cap = nan; }},
        {"logits_soft_cap", [=](Problem& p) { p.logits_soft_cap = infinity; }},
        {"sm_scale is -1e+308, not", [](Problem& p) { p.sm_scale = -1e308; }},
        {"window_left is -2, below -1", [](Problem& p) { p.window_left = -2; }},
        {"window_right is -9, below -1", [](Problem& p) { p.window_right = -9; }},
        {"kv_tiles_per_split is -1, below 0", [](Problem& p) { p.kv_tiles_per_split = -1; }},
        {"l_lanes is 0", [](Problem& p) { p.l_lanes = 0; }},
        {"l_lane_columns is 0", [](Problem& p) { p.l_lane_columns = 0; }},
        {"l_lanes (6) is larger than block_n (5)", [](Problem& p) { p.l_lanes = 6; }},
        {"dtype_acc is e4m3, none of f32, f16 and bf16", [](Problem& p) { p.dtype_acc = Dtype::e4m3; }},
        {"dtype_partial_o is e5m2, none of f32, f16 and bf16",
         [](Problem& p) { p.dtype_partial_o = Dtype::e5m2; }},
        {"dtype_k is e2m1, which no stage of attention has", [](Problem& p) { p.dtype_k = Dtype::e2m1; }},
        {"dtype_o is ue8m0, which no", [](Problem& p) { p.dtype_o = Dtype::ue8m0; }},
        {"split_starts do not ascend",
         [](Problem& p) {
             p.split_starts = {2, 2};
         }},
        {"split_starts do not ascend",
         [](Problem& p) {
             p.split_starts = {0, 1};
         }},
        {"split_starts do not ascend from 1, or stand beside kv_tiles_per_split",
         [](Problem& p) {
             p.split_starts = {1};
             p.kv_tiles_per_split = 1;
         }},
        {"diagonal_offset is ", [](Problem& p) { p.diagonal_offset = std::int64_t(1) << 31; }},
        {"the sizes ask for",
         [](Problem& p) { p.batch = p.heads = p.seqlen_q = p.seqlen_kv = p.heads_kv = 1 << 30; }},
        {"the sizes ask for",
         [](Problem& p) { p.block_m = p.block_n = p.head_dim = std::numeric_limits<std::int32_t>::max(); }},
    };
    EXPECT_NO_THROW(validate(test::small_problem(), "run.h5"));
    for (const BadProblem& bad : bad_problems) {
        Problem problem = test::small_problem();
        bad.spoil(problem);
        try {
            validate(problem, "run.h5");
            ADD_FAILURE() << bad.what << " is accepted";
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error.what()).find(std::string("run.h5: ") + bad.what), 0u) << error.what();
        }
    }
}

TEST(Schema, ValidateNamesTheWrongUnit) {
    const std::pair<const char*, double Units::*> bounds[] = {
        {"stale_threshold of m is ", &Units::m_stale_threshold}, {"exp_error of p is ", &Units::p_exp_error}};
    const std::pair<const char*, double Units::*> scales[] = {
        {"scale of q is ", &Units::q_scale},     {"scale of k is ", &Units::k_scale},
        {"scale of p is ", &Units::p_scale},     {"scale of l is ", &Units::l_scale},
        {"scale of acc is ", &Units::acc_scale}, {"scale of ds is ", &Units::ds_scale}};
    const auto expect = [](const char* what, double Units::*member, double value, bool valid) {
        Units units;
        units.*member = value;
        try {
            validate(units, "run.h5");
            EXPECT_TRUE(valid) << what << value;
        } catch (const Error& error) {
            EXPECT_FALSE(valid) << what << value;
            EXPECT_EQ(std::string(error.what()).find(std::string("run.h5: ") + what), 0u) << error.what();
        }
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    for (const auto& [what, member] : bounds) {
        for (const double value : {0.0, 8.0}) expect(what, member, value, true);
        for (const double value : {-1e-300, nan, infinity, -infinity}) expect(what, member, value, false);
    }
    for (const auto& [what, member] : scales) {
        for (const double value : {1e-300, 448.0}) expect(what, member, value, true);
        for (const double value : {0.0, -1.0, nan, infinity, -infinity}) expect(what, member, value, false);
    }
    for (const double value : {-8.0, 0.0, 2.0793}) expect("offset of m is ", &Units::m_offset, value, true);
    for (const double value : {nan, infinity, -infinity})
        expect("offset of m is ", &Units::m_offset, value, false);
    for (const double value : {-infinity, -20.0, 0.0})
        expect("flush_below of p is ", &Units::p_flush_below, value, true);
    for (const double value : {1.0, nan, infinity})
        expect("flush_below of p is ", &Units::p_flush_below, value, false);
    for (const double value : {-infinity, -1e30, 0.0}) expect("start of m is ", &Units::m_start, value, true);
    for (const double value : {1.0, nan, -1e39}) expect("start of m is ", &Units::m_start, value, false);
    const char* const masked = "masked_value of s is ";
    const double most = double(std::numeric_limits<float>::max());
    for (const double value : {0.0, -1e4, -most, -infinity})
        expect(masked, &Units::s_masked_value, value, true);
    for (const double value : {1.0, nan, infinity, -2 * most})
        expect(masked, &Units::s_masked_value, value, false);
    EXPECT_NO_THROW(validate(Units(), "run.h5"));
}

}  // namespace
}  // namespace tilescope
