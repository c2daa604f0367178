#include "dump/recording/capture_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "dump/schema/error.h"
#include "tests/dump/small_problem.h"

namespace tilescope {
namespace {

constexpr std::size_t plenty = std::size_t(1) << 30;

CapturePlan plan_of(const Problem& problem, const char* selection, std::size_t max_bytes = plenty) {
    return CapturePlan(problem, parse_selection(selection, "test"), max_bytes);
}

std::string error_of(const Problem& problem, const char* selection, std::size_t max_bytes = plenty) {
    try {
        plan_of(problem, selection, max_bytes);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

TEST(CapturePlan, EveryTileHasItsOwnSlot) {
    Problem per_head = test::small_backward_problem();
    per_head.dkv_per_head = true;
    for (const Problem& problem : {test::small_problem(), test::small_backward_problem(), per_head}) {
        const CapturePlan plan = plan_of(problem, "");
        for (const StageInfo& info : all_stages()) {
            SCOPED_TRACE(info.name);
            const bool has = has_stage(problem.direction, info.stage);
            ASSERT_EQ(plan.selected_tiles(info.stage), has ? tile_count(problem, info.stage) : 0);
            EXPECT_EQ(plan.capacity(info.stage), plan.selected_tiles(info.stage));
            for (std::int64_t slot = 0; slot < plan.selected_tiles(info.stage); ++slot) {
                const TileId tile = tile_at(problem, info.stage, slot);
                EXPECT_EQ(plan.tile_of_slot(info.stage, slot), tile);
                EXPECT_EQ(plan.tile_slot(info.stage, tile), slot);
            }
        }
    }
}

TEST(CapturePlan, DkIsSelectedByItsQueryHeads) {
    Problem problem = test::small_backward_problem();
    // Query heads 1, 4 and 5 read KV heads 0, 2 and 2.
    const char* const selection = "batch=1:head=1,4-5:q_block=2:kv_tile=0,2:stage=dq,dk";
    const CapturePlan summed = plan_of(problem, selection);
    EXPECT_EQ(summed.selected_tiles(Stage::dq), 3);
    EXPECT_EQ(summed.selected_tiles(Stage::dk), 4);
    EXPECT_EQ(summed.selected_tiles(Stage::dv), 0);
    const TileId tiles[] = {{1, 0, 0, 0}, {1, 0, 0, 2}, {1, 2, 0, 0}, {1, 2, 0, 2}};
    for (std::int64_t slot = 0; slot < 4; ++slot) {
        EXPECT_EQ(summed.tile_of_slot(Stage::dk, slot), tiles[slot]);
        EXPECT_EQ(summed.tile_slot(Stage::dk, tiles[slot]), slot);
    }
    EXPECT_EQ(summed.tile_slot(Stage::dk, {1, 2, 77, 2}), 3) << "dk has no query block";
    for (const TileId& tile : {TileId{0, 0, 0, 0}, TileId{1, 1, 0, 0}, TileId{1, 0, 0, 1}, TileId{1, 3, 0, 0},
                               TileId{1, 4, 0, 0}, TileId{1, 0, 0, 3}, TileId{1, -1, 0, 0}}) {
        EXPECT_EQ(summed.tile_slot(Stage::dk, tile), -1);
    }

    problem.dkv_per_head = true;
    const CapturePlan per_head = plan_of(problem, selection);
    EXPECT_EQ(per_head.selected_tiles(Stage::dk), 6);
    EXPECT_EQ(per_head.tile_of_slot(Stage::dk, 5), (TileId{1, 5, 0, 2}));
    EXPECT_EQ(per_head.tile_slot(Stage::dk, {1, 4, 0, 0}), 2);
}

TEST(CapturePlan, StagesOfTheOtherDirectionHaveNoSlot) {
    EXPECT_EQ(plan_of(test::small_problem(), "").tile_slot(Stage::dk, {}), -1);
    EXPECT_EQ(plan_of(test::small_backward_problem(), "").tile_slot(Stage::acc, {}), -1);
    EXPECT_NE(error_of(test::small_problem(), "stage=dk,dv")
                  .find("3 query blocks and 3 KV tiles of the forward pass; select some"),
              std::string::npos);
    EXPECT_NE(error_of(test::small_backward_problem(), "stage=lse").find("of the backward pass; select some"),
              std::string::npos);
}

TEST(CapturePlan, OnlySelectedTilesHaveSlots) {
    const Problem problem = test::small_problem();
    const CapturePlan plan = plan_of(problem, "batch=1:head=0,4:q_block=1-:kv_tile=0,2:stage=q,s");
    // 1 batch, 2 heads, 2 query blocks, 2 KV tiles.
    EXPECT_EQ(plan.selected_tiles(Stage::q), 4);
    EXPECT_EQ(plan.selected_tiles(Stage::s), 8);
    EXPECT_EQ(plan.selected_tiles(Stage::k), 0);
    EXPECT_EQ(plan.tile_slot(Stage::s, {1, 0, 1, 0}), 0);
    EXPECT_EQ(plan.tile_slot(Stage::s, {1, 0, 1, 2}), 1);
    EXPECT_EQ(plan.tile_slot(Stage::s, {1, 0, 2, 0}), 2);
    EXPECT_EQ(plan.tile_slot(Stage::s, {1, 4, 2, 2}), 7);
    EXPECT_EQ(plan.tile_slot(Stage::q, {1, 4, 2, 0}), 3);
    for (const TileId& tile :
         {TileId{0, 0, 1, 0}, TileId{1, 1, 1, 0}, TileId{1, 0, 0, 0}, TileId{1, 0, 1, 1}}) {
        EXPECT_EQ(plan.tile_slot(Stage::s, tile), -1);
    }
    EXPECT_EQ(plan.tile_slot(Stage::k, {1, 0, 1, 0}), -1);
    EXPECT_EQ(plan.tile_of_slot(Stage::s, 6), (TileId{1, 4, 2, 0}));
    EXPECT_EQ(plan.tile_of_slot(Stage::q, 1), (TileId{1, 0, 2, 0}));
}

TEST(CapturePlan, ListedBlocksHaveSlots) {
    for (const Problem& problem : {test::small_problem(), test::small_backward_problem()}) {
        const Selection selection = parse_selection("kv_tile=0-1:block=0/1/0-1,1/4/2", "test");
        const CapturePlan plan(problem, selection, plenty);
        for (const StageInfo& info : all_stages()) {
            SCOPED_TRACE(info.name);
            std::int64_t selected = 0;
            for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
                const TileId tile = tile_at(problem, info.stage, i);
                const bool is = selection.selects(problem, info.stage, tile);
                EXPECT_EQ(plan.tile_slot(info.stage, tile), is ? selected : -1);
                if (!is) continue;
                EXPECT_EQ(plan.tile_of_slot(info.stage, selected), tile);
                ++selected;
            }
            EXPECT_EQ(plan.selected_tiles(info.stage), selected);
        }
    }
}

TEST(CapturePlan, TilesOutsideTheProblemHaveNoSlot) {
    const CapturePlan plan = plan_of(test::small_problem(), "");
    for (const TileId& tile :
         {TileId{-1, 0, 0, 0}, TileId{2, 0, 0, 0}, TileId{0, -1, 0, 0}, TileId{0, 6, 0, 0},
          TileId{0, 0, -1, 0}, TileId{0, 0, 3, 0}, TileId{0, 0, 0, -1}, TileId{0, 0, 0, 3}}) {
        EXPECT_EQ(plan.tile_slot(Stage::s, tile), -1);
    }
    EXPECT_EQ(plan.tile_slot(Stage::q, {0, 0, 0, 99}), 0) << "q has no KV tile";
}

TEST(CapturePlan, RoomIsGivenStageByStage) {
    const Problem problem = test::small_problem();
    const CapturePlan all = plan_of(problem, "stage=q,s,o");
    EXPECT_EQ(all.capacity(Stage::q), 36);
    EXPECT_EQ(all.capacity(Stage::s), 108);
    EXPECT_EQ(all.capacity(Stage::o), 36);

    // q takes (4 * 8 + 1) words a tile, s takes (4 * 5 + 1).
    const std::size_t q_bytes = 36 * 33 * sizeof(float);
    const std::size_t tables = sizeof(SinkCounters) + (36 + 3) * sizeof(std::int32_t);
    const CapturePlan some =
        plan_of(problem, "stage=q,s,o", tables + 256 + q_bytes + 10 * 21 * sizeof(float));
    EXPECT_EQ(some.capacity(Stage::q), 36);
    EXPECT_EQ(some.capacity(Stage::s), 10);
    EXPECT_EQ(some.capacity(Stage::o), 0);
    EXPECT_EQ(some.selected_tiles(Stage::s), 108);
    EXPECT_EQ(some.selected_tiles(Stage::o), 36);
    EXPECT_NE(some.sink(reinterpret_cast<std::byte*>(4096)).stages[int(Stage::o)].words, nullptr)
        << "writes to a stage without room are counted";
}

TEST(CapturePlan, NeverExceedsItsLimit) {
    const Problem problem = test::small_problem();
    const std::size_t tables = sizeof(SinkCounters) + (36 + 3) * sizeof(std::int32_t);
    const std::size_t everything = plan_of(problem, "").bytes();
    std::size_t plans = 0;
    for (std::size_t max_bytes = tables + 256; max_bytes < everything + 1000; max_bytes += 61) {
        EXPECT_LE(plan_of(problem, "", max_bytes).bytes(), max_bytes);
        ++plans;
    }
    EXPECT_GT(plans, 100u);
    EXPECT_NE(error_of(problem, "", tables).find("allow more memory"), std::string::npos);
}

/// Counters, the three tables, conflict counters, tiles.
void expect_regions(const CapturePlan& plan, std::size_t dkv_heads) {
    std::byte* const base = reinterpret_cast<std::byte*>(std::size_t(1) << 20);
    const Sink sink = plan.sink(base);
    const auto offset = [base](const void* pointer) {
        return std::size_t(static_cast<const std::byte*>(pointer) - base);
    };
    EXPECT_EQ(offset(sink.counters), 0u);
    EXPECT_EQ(offset(sink.q_block_slots), sizeof(SinkCounters));
    EXPECT_EQ(offset(sink.kv_tile_slots), offset(sink.q_block_slots) + 36 * sizeof(std::int32_t));
    EXPECT_EQ(offset(sink.dkv_head_slots), offset(sink.kv_tile_slots) + 3 * sizeof(std::int32_t));
    std::size_t conflicts = offset(sink.dkv_head_slots) + dkv_heads * sizeof(std::int32_t);
    std::size_t words = plan.head_bytes();
    for (const StageInfo& info : all_stages()) {
        if (!has_stage(plan.problem().direction, info.stage)) continue;
        const SinkStage& stage = sink.stages[int(info.stage)];
        EXPECT_EQ(offset(stage.conflicts), conflicts) << info.name;
        EXPECT_EQ(offset(stage.words), words) << info.name;
        conflicts += stage.capacity * sizeof(std::uint32_t);
        EXPECT_EQ(std::int64_t(stage.elements), std::int64_t(stage.row.extent) * stage.col.extent)
            << info.name;
        words += std::size_t(stage.capacity) * stage.elements * sizeof(std::uint32_t);
    }
    EXPECT_LE(conflicts, plan.head_bytes());
    EXPECT_EQ(words, plan.bytes());
    EXPECT_EQ(plan.head_bytes() % 256, 0u);
}

TEST(CapturePlan, RegionsDoNotOverlap) {
    for (const std::size_t max_bytes :
         {plenty, sizeof(SinkCounters::hooks) + 20000, sizeof(SinkCounters::hooks) + 5000}) {
        expect_regions(plan_of(test::small_problem(), "", max_bytes), 0);
        expect_regions(plan_of(test::small_backward_problem(), "", max_bytes), 2 * 3);
    }
}

TEST(CapturePlan, SinkDescribesTheProblem) {
    const CapturePlan plan = plan_of(test::small_problem(), "kv_tile=1-:stage=k,lse");
    const Sink sink = plan.sink(reinterpret_cast<std::byte*>(4096));
    EXPECT_EQ(sink.batch, 2);
    EXPECT_EQ(sink.heads, 6);
    EXPECT_EQ(sink.q_blocks, 3);
    EXPECT_EQ(sink.kv_tiles, 3);
    EXPECT_EQ(sink.stages[int(Stage::q)].words, nullptr) << "not selected";
    const SinkStage& k = sink.stages[int(Stage::k)];
    EXPECT_EQ(k.kv_slots, 2u);
    EXPECT_EQ(k.elements, 5u * 8u);
    EXPECT_EQ(k.row.extent, 5);
    EXPECT_EQ(k.row.inside, 13);
    EXPECT_EQ(k.row.per_kv_tile, 5);
    EXPECT_EQ(k.row.per_q_block, 0);
    EXPECT_EQ(k.col.extent, 8);
    EXPECT_EQ(k.col.inside, 8);
    EXPECT_EQ(k.col.per_kv_tile, 0);
    EXPECT_EQ(k.col.per_q_block, 0);
    EXPECT_TRUE(k.per_q_block);
    EXPECT_TRUE(k.per_kv_tile);
    const SinkStage& lse = sink.stages[int(Stage::lse)];
    EXPECT_EQ(lse.row.extent, 4);
    EXPECT_EQ(lse.row.inside, 10);
    EXPECT_EQ(lse.row.per_q_block, 4);
    EXPECT_EQ(lse.col.extent, 1);
    EXPECT_FALSE(lse.per_kv_tile);
}

TEST(CapturePlan, SinkDescribesTheBackwardPass) {
    const CapturePlan plan = plan_of(test::small_backward_problem(), "head=2:stage=dv,delta");
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    const Sink sink = plan.sink(memory.data());
    EXPECT_EQ(sink.heads, 6);
    EXPECT_EQ(sink.dkv_heads, 3);
    const std::int32_t slots[] = {-1, 0, -1, -1, 1, -1};
    for (int i = 0; i < 6; ++i) EXPECT_EQ(sink.dkv_head_slots[i], slots[i]) << i;
    const SinkStage& dv = sink.stages[int(Stage::dv)];
    EXPECT_EQ(dv.row.extent, 5);
    EXPECT_EQ(dv.col.extent, 7);
    EXPECT_FALSE(dv.per_q_block);
    EXPECT_TRUE(dv.per_kv_tile);
    EXPECT_EQ(dv.capacity, 2u * 3u);
    EXPECT_EQ(sink.stages[int(Stage::delta)].capacity, 2u * 3u);
}

TEST(CapturePlan, FreshMemoryIsUnwritten) {
    const CapturePlan plan = plan_of(test::small_problem(), "head=1:kv_tile=2", 20000);
    std::vector<std::byte> memory(plan.bytes(), std::byte(0x55));
    plan.fill_unwritten(memory.data());
    EXPECT_EQ(std::memcmp(memory.data(), plan.head().data(), plan.head_bytes()), 0);
    const Sink sink = plan.sink(memory.data());
    for (int stage = 0; stage < stage_count; ++stage) {
        EXPECT_EQ(sink.counters->dropped[stage].elements, 0u);
        EXPECT_EQ(sink.counters->out_of_range[stage].elements, 0u);
    }
    for (int i = 0; i < 36; ++i) {
        const bool head_1 = i / 3 % 6 == 1;
        EXPECT_EQ(sink.q_block_slots[i], head_1 ? i / 18 * 3 + i % 3 : -1) << i;
    }
    EXPECT_EQ(sink.kv_tile_slots[0], -1);
    EXPECT_EQ(sink.kv_tile_slots[2], 0);
    for (std::size_t at = plan.head_bytes(); at < plan.bytes(); at += sizeof(std::uint32_t)) {
        std::uint32_t word = 0;
        std::memcpy(&word, memory.data() + at, sizeof word);
        ASSERT_EQ(word, unwritten_bits);
    }
}

TEST(CapturePlan, RefusesASelectionOfNothing) {
    const Problem problem = test::small_problem();
    const std::string message = error_of(problem, "head=6");
    EXPECT_NE(message.find("capture: the selection head=6 selects no tile of 2 batches, 6 heads, 3 query "
                           "blocks and 3 KV tiles of the forward pass; select some of them, counted from 0"),
              std::string::npos)
        << message;
    EXPECT_NE(error_of(problem, "kv_tile=3:stage=s"), "accepted");
    EXPECT_EQ(error_of(problem, "kv_tile=3"), "accepted") << "q, o and lse have no KV tile";
    EXPECT_EQ(error_of(problem, "head=5,99"), "accepted");
}

TEST(CapturePlan, RefusesAbsurdSizesBeforeAllocating) {
    Problem problem = test::small_problem();
    problem.seqlen_q = std::int64_t(1) << 40;
    EXPECT_NE(error_of(problem, "").find("seqlen_q is 1099511627776"), std::string::npos);

    problem = test::small_problem();
    problem.batch = 1 << 20;
    problem.heads = problem.heads_kv = 1 << 15;
    EXPECT_NE(error_of(problem, "").find("the tables for 103079215104 query blocks"), std::string::npos);
    EXPECT_NE(error_of(problem, "", std::numeric_limits<std::size_t>::max()).find("the tables for"),
              std::string::npos);

    problem = test::small_problem();
    problem.seqlen_kv = std::numeric_limits<std::int32_t>::max();
    problem.block_n = 1;
    EXPECT_NE(error_of(problem, ""), "accepted");
}

TEST(CapturePlan, HandlesALongSequenceInLittleMemory) {
    Problem problem = test::small_problem();
    problem.batch = problem.heads = problem.heads_kv = 1;
    problem.seqlen_q = problem.seqlen_kv = 1 << 27;
    problem.block_m = problem.block_n = 1024;
    const CapturePlan plan = plan_of(problem, "stage=s", std::size_t(16) << 20);
    constexpr std::int64_t blocks = 131072;
    EXPECT_EQ(plan.selected_tiles(Stage::s), blocks * blocks);
    EXPECT_EQ(plan.capacity(Stage::s), 3);
    EXPECT_EQ(plan.tile_slot(Stage::s, {0, 0, blocks - 1, blocks - 1}), blocks * blocks - 1);
    EXPECT_EQ(plan.tile_of_slot(Stage::s, blocks * blocks - 1), (TileId{0, 0, blocks - 1, blocks - 1}));
}

}  // namespace
}  // namespace tilescope
