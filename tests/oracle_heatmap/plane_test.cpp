// Planes: every element of a tile has one place, and back.

#include "oracle/heatmap/plane.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/oracle/attention_inputs.h"
#include "tests/support/every_named_tile.h"

namespace tilescope::test {
namespace {

/// Tails in both directions; every size differs, so that none can stand in for another.
Problem uneven_problem() {
    Problem problem = small_problem();
    problem.batch = 2;
    problem.heads = 3;
    problem.heads_kv = 1;
    problem.seqlen_q = 21;
    problem.seqlen_kv = 34;
    problem.block_m = 8;
    problem.block_n = 12;
    problem.head_dim = 5;
    problem.head_dim_v = 7;
    problem.l_lanes = 2;
    problem.l_lane_columns = 1;
    return problem;
}

TEST(Plane, ShapesFollowTheProblem) {
    const Problem p = uneven_problem();  // 3 query blocks, 3 KV tiles
    EXPECT_EQ(plane_shape(p, Stage::q), (PlaneShape{21, 5, 8, 5}));
    EXPECT_EQ(plane_shape(p, Stage::k), (PlaneShape{34, 5, 12, 5}));
    EXPECT_EQ(plane_shape(p, Stage::v), (PlaneShape{34, 7, 12, 7}));
    EXPECT_EQ(plane_shape(p, Stage::s), (PlaneShape{21, 34, 8, 12}));
    EXPECT_EQ(plane_shape(p, Stage::m), (PlaneShape{21, 3, 8, 1}));
    EXPECT_EQ(plane_shape(p, Stage::p), (PlaneShape{21, 34, 8, 12}));
    EXPECT_EQ(plane_shape(p, Stage::l), (PlaneShape{21, 6, 8, 2}));
    EXPECT_EQ(plane_shape(p, Stage::acc), (PlaneShape{21, 7, 8, 7}));
    EXPECT_EQ(plane_shape(p, Stage::o), (PlaneShape{21, 7, 8, 7}));
    EXPECT_EQ(plane_shape(p, Stage::lse), (PlaneShape{21, 1, 8, 1}));
    EXPECT_EQ(slice_count(p, Stage::acc), 3);
    EXPECT_EQ(slice_count(p, Stage::k), 3);
    EXPECT_EQ(slice_count(p, Stage::s), 1);
}

void expect_places_of_their_own(const Problem& p, Stage stage) {
    const PlaneShape shape = plane_shape(p, stage);
    std::set<std::tuple<Plane, std::int64_t, std::int64_t>> places;
    for (std::int64_t i = 0; i < tile_count(p, stage); ++i) {
        const TileId tile = tile_at(p, stage, i);
        const TileShape extent = tile_extent(p, stage, tile);
        const PlaceInPlane corner = corner_of(p, stage, tile);
        for (std::int64_t row = 0; row < extent.rows; ++row) {
            for (std::int64_t col = 0; col < extent.cols; ++col) {
                ASSERT_LT(corner.row + row, shape.rows);
                ASSERT_LT(corner.col + col, shape.cols);
                places.emplace(corner.plane, corner.row + row, corner.col + col);
                const PlaceInTile back = place_in_tile(p, corner.plane, corner.row + row, corner.col + col);
                ASSERT_EQ(back, (PlaceInTile{tile, row, col}));
                const ElementPlace named = element_at(p, corner.plane, corner.row + row, corner.col + col);
                ASSERT_EQ(place_in_plane(p, named),
                          (PlaceInPlane{corner.plane, corner.row + row, corner.col + col}));
            }
        }
    }
    const std::int64_t planes = p.batch * stage_heads(p, stage) * slice_count(p, stage);
    EXPECT_EQ(std::ssize(places), planes * shape.rows * shape.cols);
}

TEST(Plane, EveryElementOfEveryTileHasOnePlaceOfItsOwn) {
    Problem p = uneven_problem();
    for (const StageInfo& info : all_stages()) {
        SCOPED_TRACE(info.name);
        p.direction = info.forward ? Direction::forward : Direction::backward;
        expect_places_of_their_own(p, info.stage);
    }
}

TEST(Plane, NamedTilesOfEveryKindHavePlacesOfTheirOwn) {
    ASSERT_EQ(every_named_tile().size(), 34u);
    for (const NamedTile& tile : every_named_tile()) {
        SCOPED_TRACE(tile.name);
        Problem p = uneven_problem();
        p.named_tiles = {tile};
        ASSERT_NO_THROW(validate(p, "test"));
        expect_places_of_their_own(p, Stage::named0);
    }
}

TEST(Plane, ElementsAreNamedAsReportsNameThem) {
    const Problem p = uneven_problem();
    // q row 10 is row 2 of block 1, key 25 is column 1 of KV tile 2.
    const ElementPlace s = element_at(p, {Stage::s, 1, 2, 0}, 10, 25);
    EXPECT_EQ(s.tile, (TileId{1, 2, 1, 2}));
    EXPECT_EQ(s.row, 10);
    EXPECT_EQ(s.col, 25);
    // Column 5 of l is lane 1 of KV tile 2.
    const ElementPlace l = element_at(p, {Stage::l, 0, 0, 0}, 20, 5);
    EXPECT_EQ(l.tile, (TileId{0, 0, 2, 2}));
    EXPECT_EQ(l.row, 20);
    EXPECT_EQ(l.col, 1);
    // Key 13 as query block 2 staged it.
    const ElementPlace k = element_at(p, {Stage::k, 0, 1, 2}, 13, 4);
    EXPECT_EQ(k.tile, (TileId{0, 1, 2, 1}));
    EXPECT_EQ(k.row, 13);
    const ElementPlace acc = element_at(p, {Stage::acc, 0, 1, 2}, 9, 6);
    EXPECT_EQ(acc.tile, (TileId{0, 1, 1, 2}));
    EXPECT_EQ(acc.col, 6);
}

TEST(Plane, TilesCoverItInOrder) {
    const Problem p = uneven_problem();
    const std::vector<TileId> tiles = tiles_of(p, {Stage::s, 1, 0, 0});
    ASSERT_EQ(tiles.size(), 9u);
    EXPECT_EQ(tiles[0], (TileId{1, 0, 0, 0}));
    EXPECT_EQ(tiles[1], (TileId{1, 0, 0, 1}));
    EXPECT_EQ(tiles[3], (TileId{1, 0, 1, 0}));
    EXPECT_EQ(tiles_of(p, {Stage::v, 0, 0, 1}).at(2), (TileId{0, 0, 1, 2}));
    EXPECT_EQ(tiles_of(p, {Stage::o, 0, 0, 0}).size(), 3u);
}

}  // namespace
}  // namespace tilescope::test
