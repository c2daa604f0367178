// The map of tiles against the report of the same recording, and against what was planted.

#include "oracle/heatmap/tile_map.h"

#include <gtest/gtest.h>

#include "oracle/judge/observe.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

Arithmetic plain_arithmetic() {
    Arithmetic arithmetic;
    arithmetic.skips_hidden_tiles = true;
    return arithmetic;
}

MemoryRecording healthy(Mask mask, std::uint64_t seed) {
    const Problem problem = small_problem(mask);
    return recorded(make_call(problem, seed, plain_arithmetic()));
}

/// Judges the recording and fills a map on the way.
Report fill(const Recording& recording, TileMap& map) {
    JudgeOptions options = one_thread();
    const CompareOptions compare;
    const ObservedTileFunction observe = [&](const ObservedTile& tile) {
        QuantityValues values;
        values_of(tile, Quantity::over_budget, values);
        map.set(tile.context.stage, tile.context.tile, finding_of(tile, values));
    };
    options.observe = observer_of(recording, nullptr, compare, observe);
    const Report report = judge(recording, options);
    map.finish(recording, nullptr);
    return report;
}

TEST(TileMap, AddsUpToTheReport) {
    MemoryRecording recording = healthy(Mask::causal, 3);
    const float no_end = infinity;
    poke(recording, Stage::s, {1, 2, 2, 1}, 3, 4, nan);
    poke(recording, Stage::s, {0, 1, 2, 0}, 3, 4, 1e3f);
    poke(recording, Stage::s, {0, 1, 2, 0}, 0, 0, no_end);
    poke(recording, Stage::o, {1, 3, 0, 0}, 1, 1, unwritten);
    TileMap map(recording.problem());
    const Report report = fill(recording, map);
    for (const StageInfo& info : all_stages()) {
        SCOPED_TRACE(info.name);
        std::int64_t outside = 0;
        std::int64_t nan = 0;
        std::int64_t infinite = 0;
        std::int64_t tiles = 0;
        for (std::int64_t i = 0; i < tile_count(recording.problem(), info.stage); ++i) {
            const TileFinding found = map.at(info.stage, tile_at(recording.problem(), info.stage, i));
            outside += found.outside;
            nan += found.nan;
            infinite += found.infinite;
            tiles += found.state == TileFinding::State::captured;
            // A tile is over budget as a whole where an element is.
            EXPECT_EQ(found.worst > 1, found.outside > 0);
        }
        const StageTally& tally = report.stage(info.stage).tally;
        EXPECT_EQ(outside, tally.outside);
        EXPECT_EQ(nan, tally.nan);
        EXPECT_EQ(infinite, tally.infinite);
        EXPECT_EQ(tiles, tally.tiles);
    }
    EXPECT_EQ(map.at(Stage::s, {1, 2, 2, 1}).nan, 1u);
    EXPECT_EQ(map.at(Stage::s, {0, 1, 2, 0}).infinite, 1u);
    EXPECT_EQ(map.at(Stage::o, {1, 3, 0, 0}).unwritten, 1u);
    const std::vector<TileId> bad = map.bad_tiles(Stage::s);
    ASSERT_EQ(bad.size(), 2u);
    EXPECT_EQ(bad[0], (TileId{0, 1, 2, 0}));
    EXPECT_EQ(bad[1], (TileId{1, 2, 2, 1}));
}

TEST(TileMap, PicturesShowEachTile) {
    MemoryRecording recording = healthy(Mask::none, 5);
    poke(recording, Stage::p, {0, 0, 1, 2}, 3, 4, nan);
    TileMap map(recording.problem());
    fill(recording, map);
    const auto picture = map.picture(Stage::p, 0, 0);
    ASSERT_NE(picture, nullptr);
    const Problem& problem = recording.problem();
    ASSERT_EQ(picture->rows(), problem.q_blocks());
    ASSERT_EQ(picture->cols(), problem.kv_tiles());
    EXPECT_TRUE(picture->is_complete());
    for (std::int64_t row = 0; row < picture->rows(); ++row) {
        for (std::int64_t col = 0; col < picture->cols(); ++col) {
            const Summary cell = picture->worst_of({row, col, row + 1, col + 1});
            EXPECT_EQ(cell.has(Kind::nan), row == 1 && col == 2);
            EXPECT_TRUE(cell.has(Kind::finite));
        }
    }
    EXPECT_EQ(map.picture(Stage::o, 0, 0)->cols(), 1);
    EXPECT_EQ(map.picture(Stage::p, 7, 0), nullptr);
}

TEST(TileMap, FindsMissingTilesAndConflicts) {
    MemoryRecording recording = healthy(Mask::causal, 7);
    CaptureSummary capture;
    capture.selection = Selection{};
    capture.stages[std::size_t(Stage::l)].conflicts.push_back({{1, 1, 0, 0}, 3});
    recording.set_capture(capture);
    recording.remove_tile(Stage::s, {0, 2, 1, 0});
    TileMap map(recording.problem());
    const Report report = fill(recording, map);
    const TileFinding missing = map.at(Stage::s, {0, 2, 1, 0});
    EXPECT_EQ(missing.state, TileFinding::State::missing);
    EXPECT_TRUE(missing.bad());
    EXPECT_EQ(missing.unwritten, report.stage(Stage::s).tally.unwritten);
    EXPECT_EQ(map.at(Stage::l, {1, 1, 0, 0}).conflicting, 3u);
    EXPECT_EQ(map.bad_tiles(Stage::l).size(), 1u);
    EXPECT_EQ(map.bad_tiles(Stage::s).size(), std::size_t(report.stage(Stage::s).tally.tiles_missing));
    // Tiles that the mask hides wholly are not missing.
    EXPECT_EQ(map.at(Stage::p, {0, 0, 0, 4}).state, TileFinding::State::not_captured);

    const PlaneShape shape = plane_shape(recording.problem(), Stage::s);
    Pyramid pyramid(shape.rows, shape.cols);
    set_missing_tiles(recording, nullptr, {Stage::s, 0, 2, 0}, pyramid);
    EXPECT_EQ(pyramid.worst_of({16, 0, 32, 16}).kinds, flag_of(Kind::unwritten));
    EXPECT_EQ(pyramid.worst_of({0, 0, 16, 80}).kinds, 0);
}

}  // namespace
}  // namespace tilescope::test
