// Which thread owns which element: against the tables of the PTX ISA, and declarations that cover nothing.

#include "dump/schema/thread_layout.h"

#include <gtest/gtest.h>

#include <set>

#include "dump/hook/sink.h"
#include "dump/schema/wmma_fragments.h"
#include "tests/support/error_of.h"

namespace tilescope::test {
namespace {

struct Placed {
    std::int64_t row;
    std::int64_t col;
    Owner owner;
};

/// s has tiles of 128 x 64, acc of 128 x 32.
Problem wide_problem() {
    Problem problem;
    problem.heads = problem.heads_kv = 2;
    problem.seqlen_q = 300;
    problem.seqlen_kv = 500;
    problem.head_dim = 32;
    problem.head_dim_v = 32;
    problem.block_m = 128;
    problem.block_n = 64;
    return problem;
}

ThreadMap map_of(const ThreadLayout& layout, Stage stage = Stage::s,
                 const Problem& problem = wide_problem()) {
    ThreadLayouts layouts;
    layouts[stage] = layout;
    return {problem, stage, layouts, "test"};
}

void expect_owners(const ThreadMap& map, const std::vector<Placed>& placed, const TileId& tile = {}) {
    for (const Placed& one : placed)
        EXPECT_EQ(to_string(map.owner(tile, one.row, one.col)), to_string(one.owner))
            << "row " << one.row << ", column " << one.col;
}

// PTX ISA 8.0, "Matrix Fragments for mma.m16n8k16 with floating point type": the figure of C and D, read off.
TEST(ThreadLayout, MmaAccumulatorsLieAsThePtxIsaDrawsThem) {
    const ThreadMap map = map_of({.fragment = "mma_m16n8"});
    EXPECT_EQ(map.warps(), 8);
    EXPECT_EQ(map.registers(), 32);
    expect_owners(map,
                  {
                      {0, 0, {0, 0, 0}},  {0, 1, {0, 0, 1}},   {8, 0, {0, 0, 2}},    {8, 1, {0, 0, 3}},
                      {0, 2, {0, 1, 0}},  {0, 6, {0, 3, 0}},   {0, 7, {0, 3, 1}},    {1, 0, {0, 4, 0}},
                      {4, 4, {0, 18, 0}}, {4, 5, {0, 18, 1}},  {12, 4, {0, 18, 2}},  {12, 5, {0, 18, 3}},
                      {7, 6, {0, 31, 0}}, {7, 7, {0, 31, 1}},  {15, 6, {0, 31, 2}},  {15, 7, {0, 31, 3}},
                      {0, 8, {0, 0, 4}},  {9, 11, {0, 5, 7}},  {0, 56, {0, 0, 28}},  {15, 63, {0, 31, 31}},
                      {16, 0, {1, 0, 0}}, {31, 7, {1, 31, 3}}, {125, 3, {7, 21, 3}},
                  });
}

// PTX ISA 8.0, "Register Fragments for wgmma.mma_async.m64nNk16": the figure of D, read off; T32 begins
// row 16.
TEST(ThreadLayout, WgmmaAccumulatorsLieAsThePtxIsaDrawsThem) {
    const ThreadMap map = map_of({.fragment = "wgmma_m64"});
    EXPECT_EQ(map.warps(), 8);
    EXPECT_EQ(map.registers(), 32);
    expect_owners(map, {
                           {0, 0, {0, 0, 0}},
                           {0, 1, {0, 0, 1}},
                           {8, 0, {0, 0, 2}},
                           {8, 1, {0, 0, 3}},
                           {0, 8, {0, 0, 4}},
                           {0, 9, {0, 0, 5}},
                           {8, 8, {0, 0, 6}},
                           {1, 0, {0, 4, 0}},
                           {7, 6, {0, 31, 0}},
                           {16, 0, {1, 0, 0}},
                           {24, 1, {1, 0, 3}},
                           {32, 2, {2, 1, 0}},
                           {48, 0, {3, 0, 0}},
                           {55, 7, {3, 31, 1}},
                           {63, 7, {3, 31, 3}},
                           {63, 63, {3, 31, 31}},
                           {64, 0, {4, 0, 0}},
                           {127, 62, {7, 31, 30}},
                       });
}

TEST(ThreadLayout, LanesShareARow) {
    // Eight threads a row, each with columns lane, lane + 8, ...: thread 8 row + column mod 8.
    const ThreadMap eight = map_of({.fragment = "lanes", .lanes = 8});
    EXPECT_EQ(eight.warps(), 32);
    EXPECT_EQ(eight.registers(), 8);
    expect_owners(eight, {{0, 0, {0, 0, 0}},
                          {0, 7, {0, 7, 0}},
                          {0, 8, {0, 0, 1}},
                          {1, 0, {0, 8, 0}},
                          {3, 63, {0, 31, 7}},
                          {4, 0, {1, 0, 0}},
                          {127, 57, {31, 25, 7}}});
    // A warp a row, two columns a lane, sixteen rows a warp one after the other.
    const ThreadMap warp = map_of({.fragment = "lanes", .lanes = 32, .lane_columns = 2, .group_rows = 16});
    EXPECT_EQ(warp.warps(), 8);
    EXPECT_EQ(warp.registers(), 32);
    expect_owners(warp, {{0, 0, {0, 0, 0}},
                         {0, 1, {0, 0, 1}},
                         {0, 2, {0, 1, 0}},
                         {0, 63, {0, 31, 1}},
                         {1, 0, {0, 0, 2}},
                         {15, 62, {0, 31, 30}},
                         {16, 4, {1, 2, 0}}});
    // A thread a row.
    const ThreadMap thread = map_of({.fragment = "lanes", .lanes = 1});
    EXPECT_EQ(thread.warps(), 4);
    expect_owners(thread, {{0, 0, {0, 0, 0}}, {0, 63, {0, 0, 63}}, {37, 5, {1, 5, 5}}});
}

TEST(ThreadLayout, ValuesOfARowAreWithItsFirstColumn) {
    expect_owners(map_of({.fragment = "mma_m16n8"}, Stage::m),
                  {{0, 0, {0, 0, 0}}, {1, 0, {0, 4, 0}}, {8, 0, {0, 0, 1}}, {127, 0, {7, 28, 1}}});
    expect_owners(map_of({.fragment = "lanes", .lanes = 8}, Stage::lse),
                  {{0, 0, {0, 0, 0}}, {1, 0, {0, 8, 0}}, {5, 0, {1, 8, 0}}});
}

TEST(ThreadLayout, GroupsShareTheTile) {
    // 32 rows a warp: 64 columns are 8 fragments of 4 registers, before those of the lower 16 rows.
    expect_owners(map_of({.fragment = "mma_m16n8", .group_rows = 32}),
                  {{0, 0, {0, 0, 0}}, {16, 0, {0, 0, 32}}, {31, 63, {0, 31, 63}}, {32, 0, {1, 0, 0}}});
    // Two warps side by side: down the rows first.
    const ThreadMap side = map_of({.fragment = "mma_m16n8", .group_rows = 64, .group_cols = 32});
    EXPECT_EQ(side.warps(), 4);
    expect_owners(side, {{0, 0, {0, 0, 0}}, {64, 0, {1, 0, 0}}, {0, 32, {2, 0, 0}}, {64, 40, {3, 0, 4}}});
    // Four warps copy rows of 32 columns, 8 a thread: 8 rows at once, and the first warp goes on.
    const ThreadMap copy =
        map_of({.fragment = "lanes", .lanes = 4, .lane_columns = 8, .groups = 4}, Stage::q);
    EXPECT_EQ(copy.warps(), 4);
    EXPECT_EQ(copy.registers(), 32);
    expect_owners(copy, {{0, 0, {0, 0, 0}},
                         {0, 9, {0, 1, 1}},
                         {8, 0, {1, 0, 0}},
                         {31, 31, {3, 31, 7}},
                         {32, 0, {0, 0, 8}},
                         {127, 31, {3, 31, 31}}});
}

TEST(ThreadLayout, SplitsHaveWarpsOfTheirOwn) {
    Problem problem = wide_problem();
    problem.kv_tiles_per_split = 3;  // of 8 tiles: three splits
    const ThreadMap map =
        map_of({.fragment = "mma_m16n8", .group_rows = 64, .split_groups = 2}, Stage::s, problem);
    EXPECT_EQ(map.warps(), 6);
    EXPECT_EQ(map.owner({0, 0, 0, 2}, 64, 0).warp, 1);
    EXPECT_EQ(map.owner({0, 0, 0, 3}, 64, 0).warp, 3);
    EXPECT_EQ(map.owner({0, 0, 0, 7}, 0, 0).warp, 4);
}

TEST(ThreadLayout, FragmentsMayBeGiven) {
    // Two lanes that swap: thread 1 has the first column.
    ThreadLayouts layouts;
    layouts.fragments = {{"swapped", 1, 2, {{1, 0}, {0, 0}}}};
    layouts[Stage::s] = {.fragment = "swapped"};
    const ThreadMap map(
        wide_problem(), Stage::s,
        [&] {
            layouts[Stage::s].group_rows = 4;
            return layouts;
        }(),
        "test");
    EXPECT_EQ(map.warps(), 32);
    expect_owners(map, {{0, 0, {0, 1, 0}}, {0, 1, {0, 0, 0}}, {0, 2, {0, 1, 1}}, {1, 0, {0, 1, 32}}});
}

/// Every element of a tile has a thread and a register of its own.
TEST(ThreadLayout, NoTwoElementsShareARegister) {
    for (const ThreadLayout& layout : {
             ThreadLayout{.fragment = "mma_m16n8"},
             ThreadLayout{.fragment = "wgmma_m64"},
             ThreadLayout{.fragment = "mma_m16n8", .group_rows = 32, .group_cols = 16},
             ThreadLayout{.fragment = "lanes", .lanes = 16, .lane_columns = 2, .group_rows = 8, .groups = 5},
         }) {
        const ThreadMap map = map_of(layout);
        std::set<Owner> seen;
        for (std::int64_t row = 0; row < 128; ++row) {
            for (std::int64_t col = 0; col < 64; ++col) {
                const Owner owner = map.owner({}, row, col);
                EXPECT_TRUE(seen.insert(owner).second) << layout.fragment << ": " << to_string(owner);
                EXPECT_LT(owner.warp, map.warps());
                EXPECT_LT(owner.lane, 32);
                EXPECT_LT(owner.reg, map.registers());
            }
        }
    }
}

TEST(ThreadLayout, WhatCoversNoTileIsRefused) {
    struct Case {
        ThreadLayout layout;
        Stage stage;
        const char* what;
    };
    const Case cases[] = {
        {{.fragment = "mma_m8n8"},
         Stage::s,
         "declares the fragment mma_m8n8, which is none of lanes, mma_m16n8"},
        {{.fragment = "Ma\n"}, Stage::s, "declares a fragment of another name, which is none of lanes"},
        {{.fragment = "lanes"}, Stage::s, "has 0 lanes a row, not 1, 2, 4, 8, 16 or 32"},
        {{.fragment = "lanes", .lanes = 12}, Stage::s, "has 12 lanes a row"},
        {{.fragment = "lanes", .lanes = 64}, Stage::s, "has 64 lanes a row"},
        {{.fragment = "lanes", .lanes = 8, .lane_columns = -1}, Stage::s, "has -1 columns a lane"},
        {{.fragment = "lanes", .lanes = 32, .lane_columns = 4},
         Stage::s,
         "the fragment lanes, 1 x 128, does not cover the 1 x 64 that a group owns"},
        {{.fragment = "mma_m16n8", .lanes = 8}, Stage::s, "declares lanes, and its fragment is mma_m16n8"},
        {{.fragment = "mma_m16n8", .group_rows = 24},
         Stage::s,
         "the fragment mma_m16n8, 16 x 8, does not cover the 24 x 64 that a group owns"},
        {{.fragment = "mma_m16n8", .group_rows = 48},
         Stage::s,
         "the 48 x 64 that a group owns do not cover the tile of s, 128 x 64"},
        {{.fragment = "mma_m16n8", .group_cols = 40},
         Stage::s,
         "the 16 x 40 that a group owns do not cover the tile of s"},
        {{.fragment = "mma_m16n8", .group_rows = 256}, Stage::s, "do not cover the tile of s"},
        {{.fragment = "mma_m16n8", .group_rows = -16}, Stage::s, "group_rows is negative"},
        {{.fragment = "mma_m16n8", .groups = 9},
         Stage::s,
         "has 9 groups where the tile of s, 128 x 64, has 8"},
        {{.fragment = "mma_m16n8", .split_groups = 8}, Stage::s, "s has no splits"},
        {{.fragment = "lanes", .lanes = 32}, Stage::s, "has more than 32 warps"},
        {{.fragment = "mma_m16n8", .group_cols = 8}, Stage::m, "128 x 1"},
    };
    for (const Case& one : cases) {
        const std::string error = error_of([&] { map_of(one.layout, one.stage); });
        EXPECT_NE(error.find(one.what), std::string::npos) << error << "\n  expected: " << one.what;
        EXPECT_EQ(error.find("test: "), 0u) << error;
    }
}

TEST(ThreadLayout, SplitsNeedAsManyGroupsAsATile) {
    Problem problem = wide_problem();
    problem.kv_tiles_per_split = 2;
    const auto refused = [&](const ThreadLayout& layout, Stage stage) {
        return error_of([&] { map_of(layout, stage, problem); });
    };
    EXPECT_NE(refused({.fragment = "mma_m16n8", .split_groups = 4}, Stage::s)
                  .find("has 4 groups for each split where a tile has 8"),
              std::string::npos);
    EXPECT_NE(refused({.fragment = "mma_m16n8", .split_groups = 8}, Stage::o).find("o has no splits"),
              std::string::npos);
    EXPECT_NE(refused({.fragment = "mma_m16n8", .split_groups = 16}, Stage::s).find("more than 32 warps"),
              std::string::npos);
}

TEST(ThreadLayout, GivenFragmentsAreChecked) {
    const auto refused = [](const Fragment& fragment) {
        return error_of([&] { validate(fragment, "test"); });
    };
    EXPECT_EQ(refused({"mine", 1, 2, {{0, 0}, {1, 0}}}), "accepted");
    const std::pair<Fragment, const char*> cases[] = {
        {{"lanes", 1, 1, {{0, 0}}}, "name is that of another"},
        {{"Mine", 1, 1, {{0, 0}}}, "not of a-z, 0-9 and _"},
        {{"", 1, 1, {{0, 0}}}, "not of a-z"},
        {{"mine", 0, 1, {}}, "is 0 x 1, not of 1 to 256"},
        {{"mine", 1, 257, std::vector<ThreadElement>(257)}, "is 1 x 257"},
        {{"mine", 2, 2, {{0, 0}}}, "has 1 owners, not 2 x 2"},
        {{"mine", 1, 2, {{3, 1}, {3, 1}}}, "gives two elements to thread 3, register 1"},
        {{"mine", 1, 1, {{1024, 0}}}, "names thread 1024"},
        {{"mine", 1, 1, {{-1, 0}}}, "names thread -1"},
        {{"mine", 1, 1, {{0, 256}}}, "names thread 0, register 256"},
    };
    for (const auto& [fragment, what] : cases)
        EXPECT_NE(refused(fragment).find(what), std::string::npos) << refused(fragment) << "\n  " << what;

    ThreadLayouts twice;
    twice.fragments = {{"mine", 1, 1, {{0, 0}}}, {"mine", 1, 1, {{0, 0}}}};
    EXPECT_NE(error_of([&] { validate(twice, wide_problem(), "test"); }).find("the fragment mine twice"),
              std::string::npos);
}

TEST(ThreadLayout, OfStagesThatAPassDoesNotHaveNothingIsChecked) {
    ThreadLayouts layouts;
    layouts[Stage::dq] = {.fragment = "unheard_of"};
    EXPECT_EQ(error_of([&] { validate(layouts, wide_problem(), "test"); }), "accepted");
    layouts[Stage::o] = {.fragment = "unheard_of"};
    EXPECT_NE(error_of([&] { validate(layouts, wide_problem(), "test"); }).find("threads of o"),
              std::string::npos);
}

/// A GPU's answer in which lane n has row n / 2 and every second column of a half of it.
TEST(ThreadLayout, WmmaFragmentsAreWhatTheGpuSays) {
    std::vector<std::uint16_t> places(wmma_tables * 32 * wmma_values);
    for (int lane = 0; lane < 32; ++lane) {
        for (int value = 0; value < wmma_values; ++value)
            places[std::size_t(lane * wmma_values + value)] =
                std::uint16_t(lane / 2 * 256 + lane % 2 + 2 * value);
    }
    ThreadLayouts layouts;
    EXPECT_FALSE(needs_wmma_fragments(layouts));
    layouts[Stage::s] = {.fragment = "wmma_16x16_f32"};
    ASSERT_TRUE(needs_wmma_fragments(layouts));
    add_wmma_fragments(places, layouts);
    EXPECT_FALSE(needs_wmma_fragments(layouts));
    ASSERT_EQ(layouts.fragments.size(), 1u) << "only what a stage names";
    validate(layouts, wide_problem(), "test");
    const ThreadMap map(wide_problem(), Stage::s, layouts, "test");
    EXPECT_EQ(map.registers(), 32);
    expect_owners(map, {{0, 0, {0, 0, 0}},
                        {0, 1, {0, 1, 0}},
                        {0, 2, {0, 0, 1}},
                        {5, 14, {0, 10, 7}},
                        {0, 16, {0, 0, 8}},
                        {16, 0, {1, 0, 0}}});
}

}  // namespace
}  // namespace tilescope::test
