// What is asked of the detail tiles, and in which order.

#include "viewer/session/detail_store.h"

#include <gtest/gtest.h>

#include "tests/oracle_heatmap/one_tile.h"

namespace tilescope::viewer {
namespace {

constexpr std::int64_t plenty = 1 << 24;

Problem small_tiles() {
    Problem problem;
    problem.seqlen_q = problem.seqlen_kv = 64;
    problem.block_m = problem.block_n = 8;
    return problem;
}

std::shared_ptr<const DetailTile> some_tile() {
    return std::make_shared<const DetailTile>(test::row_of(Stage::s, {1}, {1}, {1}).view());
}

void put_all(DetailStore& store, const DetailStore::Band& band) {
    for (const DetailStore::Key& key : band.tiles) store.put(key, some_tile());
}

TEST(DetailStore, AsksForWhatIsMissing) {
    const Problem problem = small_tiles();
    DetailStore store(plenty);
    const Plane plane{Stage::s, 0, 0, 0};
    EXPECT_FALSE(store.waiting());
    const DetailTiles nothing = store.ask(problem, plane, Quantity::dumped, {9, 17, 25, 33});
    EXPECT_EQ(nothing.down, 3);
    EXPECT_EQ(nothing.across, 3);
    EXPECT_EQ(nothing.at(9, 17), nullptr);
    // The band in the middle first.
    const auto band = store.next();
    ASSERT_TRUE(band);
    EXPECT_EQ(band->q_block, 2);
    EXPECT_EQ(band->tiles.size(), 3u);
    EXPECT_TRUE(band->tiles.contains({Stage::s, {0, 0, 2, 4}}));
    for (int i = 0; i < 3; ++i) put_all(store, *store.next());
    EXPECT_FALSE(store.next());
    EXPECT_NE(store.ask(problem, plane, Quantity::dumped, {9, 17, 25, 33}).at(24, 32), nullptr);
    EXPECT_FALSE(store.waiting());
}

TEST(DetailStore, NothingIsWaitedForOnceItIsThere) {
    const Problem problem = small_tiles();
    DetailStore store(plenty);
    store.ask(problem, {Stage::s, 0, 0, 0}, Quantity::dumped, {9, 17, 25, 33});
    store.ask(problem, {Stage::s, 0, 0, 0}, Quantity::dumped, {9, 17, 10, 18});
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(store.waiting());
        put_all(store, *store.next());
    }
    // Nobody has to ask again for that.
    EXPECT_FALSE(store.waiting());
    EXPECT_FALSE(store.next());
}

TEST(DetailStore, StoppedItAsksForNothingUntilItMay) {
    const Problem problem = small_tiles();
    DetailStore store(plenty);
    const auto ask = [&] { return store.ask(problem, {Stage::s, 0, 0, 0}, Quantity::dumped, {0, 0, 8, 16}); };
    store.put({Stage::s, {0, 0, 0, 1}}, some_tile());
    ask();
    EXPECT_TRUE(store.waiting());
    store.stop_asking();
    EXPECT_FALSE(store.waiting());
    EXPECT_NE(ask().at(0, 8), nullptr);
    EXPECT_FALSE(store.waiting());
    store.allow_asking();
    ask();
    EXPECT_TRUE(store.waiting());
}

TEST(DetailStore, TwoPanelsOfOnePlaneDoNotForgetEachOther) {
    const Problem problem = small_tiles();
    DetailStore store(plenty);
    const Plane plane{Stage::s, 0, 0, 0};
    store.put({Stage::s, {0, 0, 0, 0}}, some_tile());
    store.ask(problem, plane, Quantity::dumped, {32, 0, 64, 64});
    store.ask(problem, plane, Quantity::dumped, {0, 0, 1, 1});
    ASSERT_TRUE(store.next());
    EXPECT_GE(store.next()->q_block, 4);
}

TEST(DetailStore, OneBandServesAllStages) {
    const Problem problem = small_tiles();
    DetailStore store(plenty);
    store.ask(problem, {Stage::s, 0, 0, 0}, Quantity::dumped, {8, 0, 16, 16});
    store.ask(problem, {Stage::m, 0, 0, 0}, Quantity::dumped, {8, 0, 16, 3});
    const auto band = store.next();
    ASSERT_TRUE(band);
    EXPECT_EQ(band->tiles.size(), 5u);
}

TEST(DetailStore, TilesThatAreNotThereAreAskedForOnce) {
    const Problem problem = small_tiles();
    DetailStore store(plenty);
    store.ask(problem, {Stage::s, 0, 0, 0}, Quantity::dumped, {0, 0, 8, 8});
    store.put({Stage::s, {0, 0, 0, 0}}, nullptr);
    EXPECT_FALSE(store.next());
    store.ask(problem, {Stage::s, 0, 0, 0}, Quantity::dumped, {0, 0, 8, 8});
    EXPECT_FALSE(store.waiting());
}

TEST(DetailStore, OldTilesMakeRoomAndShownOnesStay) {
    const Problem problem = small_tiles();
    DetailStore store(40 * detail_bytes_of_element);
    const Plane plane{Stage::m, 0, 0, 0};
    const auto shown = [&](std::int64_t col) {
        return store.ask(problem, plane, Quantity::dumped, {0, col, 8, col + 1}).at(0, col) != nullptr;
    };
    for (std::int64_t col = 0; col < 8; ++col) {
        for (int frame = 0; frame < 40; ++frame) shown(col);
        for (int i = 0; i < 10; ++i) store.put({Stage::m, {0, 0, 7, i + 10 * col}}, some_tile());
        store.put({Stage::m, {0, 0, 0, col}}, some_tile());
        EXPECT_TRUE(shown(col));
    }
    EXPECT_FALSE(shown(0));
}

}  // namespace
}  // namespace tilescope::viewer
