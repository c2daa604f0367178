#include "viewer/state/view_state.h"
#include "tests/support/every_named_tile.h"

#include <gtest/gtest.h>

#include <random>

namespace tilescope::viewer {
namespace {

Problem small_problem() {
    Problem problem;
    problem.batch = 2;
    problem.heads = 4;
    problem.heads_kv = 2;
    problem.seqlen_q = 100;
    problem.seqlen_kv = 250;
    problem.head_dim = 32;
    problem.head_dim_v = 48;
    problem.block_m = 16;
    problem.block_n = 24;
    return problem;
}

TEST(Cursor, LeadsToTheElementOfEachStage) {
    const Problem problem = small_problem();
    const Cursor cursor{1, 3, 37, 130, 20, 0};
    // By hand: row 37 is in query block 2, key 130 in KV tile 5.
    EXPECT_EQ(plane_at(problem, cursor, Stage::s), (Plane{Stage::s, 1, 3, 0}));
    EXPECT_EQ(point_at(problem, cursor, Stage::s), (PlanePoint{37, 130}));
    EXPECT_EQ(plane_at(problem, cursor, Stage::acc), (Plane{Stage::acc, 1, 3, 5}));
    EXPECT_EQ(point_at(problem, cursor, Stage::acc), (PlanePoint{37, 20}));
    EXPECT_EQ(plane_at(problem, cursor, Stage::k), (Plane{Stage::k, 1, 3, 2}));
    EXPECT_EQ(point_at(problem, cursor, Stage::k), (PlanePoint{130, 20}));
    EXPECT_EQ(point_at(problem, cursor, Stage::m), (PlanePoint{37, 5}));
    EXPECT_EQ(point_at(problem, cursor, Stage::lse), (PlanePoint{37, 0}));
}

TEST(Cursor, ComesBackFromEveryElementOfEveryStage) {
    Problem problem = small_problem();
    problem.l_lanes = 4;
    constexpr std::uint64_t seed = 71;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 draw(seed);
    const auto below = [&](std::int64_t count) {
        return std::uniform_int_distribution<std::int64_t>(0, count - 1)(draw);
    };
    for (int i = 0; i < 2000; ++i) {
        problem.named_tiles = {test::every_named_tile()[std::size_t(below(34))]};
        const auto stage = Stage(below(built_in_stages + 1));
        const Plane plane{stage, below(problem.batch), below(stage_heads(problem, stage)),
                          below(slice_count(problem, stage))};
        const PlaneShape shape = plane_shape(problem, stage);
        const PlanePoint point{below(shape.rows), below(shape.cols)};
        const Cursor before{0,        0,       below(problem.seqlen_q), below(problem.seqlen_kv), below(32),
                            below(4), below(3)};
        const Cursor cursor = cursor_at(problem, before, plane, point);
        EXPECT_EQ(plane_at(problem, cursor, stage), plane) << stage_info(problem, stage).name;
        EXPECT_EQ(point_at(problem, cursor, stage), point) << stage_info(problem, stage).name;
    }
}

TEST(Cursor, IsKeptInsideThePlane) {
    const Problem problem = small_problem();
    const Cursor cursor = cursor_at(problem, {}, {Stage::s, 0, 0, 0}, {-5, 1000});
    EXPECT_EQ(point_at(problem, cursor, Stage::s), (PlanePoint{0, 249}));
}

TEST(ViewRanges, ZoomLeavesThePlaceUnderThePointer) {
    const Problem problem = small_problem();
    ViewRanges ranges;
    ranges.fit(problem);
    ranges.zoom(problem, Stage::s, 0.25, 50, 125);
    const PlaneView view = ranges.view(problem, Stage::s);
    EXPECT_DOUBLE_EQ(view.rows, 25);
    EXPECT_DOUBLE_EQ(view.cols, 62.5);
    // 50 was in the middle of 100 rows and stays there.
    EXPECT_DOUBLE_EQ(view.first_row, 37.5);
    EXPECT_DOUBLE_EQ(view.first_col, 93.75);
}

TEST(ViewRanges, StagesOfOneAxisMoveTogether) {
    const Problem problem = small_problem();
    ViewRanges ranges;
    ranges.fit(problem);
    ranges.zoom(problem, Stage::s, 0.5, 0, 0);
    ranges.pan(problem, Stage::p, 7, 11);
    EXPECT_EQ(ranges.view(problem, Stage::s), ranges.view(problem, Stage::p));
    EXPECT_DOUBLE_EQ(ranges.view(problem, Stage::acc).first_row, 7);
    EXPECT_DOUBLE_EQ(ranges.view(problem, Stage::acc).cols, 48);
}

TEST(Reveal, LeavesAnAxisThatFitsWhole) {
    for (const double place : {0.0, 20.0, 39.0}) {
        AxisRange whole{0, 40};
        reveal(whole, place, {40, 40});
        EXPECT_EQ(whole.first, 0) << place;
    }
    AxisRange part{0, 20};
    reveal(part, 39, {40, 40});
    EXPECT_GE(part.last(), 40);
}

TEST(ViewRanges, CentreOnAnElementInTheMiddle) {
    const Problem problem = small_problem();
    ViewRanges ranges;
    ranges.centre_on(problem, {0, 0, 50, 130, 0, 0});
    const PlaneView view = ranges.view(problem, Stage::s);
    EXPECT_DOUBLE_EQ(view.first_row + view.rows / 2, 50.5);
    EXPECT_DOUBLE_EQ(view.first_col + view.cols / 2, 130.5);
}

TEST(ViewRanges, ShowWhatIsOutside) {
    const Problem problem = small_problem();
    ViewRanges ranges;
    ranges.centre_on(problem, {0, 0, 0, 0, 0, 0});
    const Cursor far{0, 0, 99, 249, 0, 0};
    ranges.show(problem, far, Stage::s);
    const PlaneView view = ranges.view(problem, Stage::s);
    EXPECT_GE(99, view.first_row);
    EXPECT_LE(100, view.first_row + view.rows);
    EXPECT_GE(249, view.first_col);
    EXPECT_LE(250, view.first_col + view.cols);
}

}  // namespace
}  // namespace tilescope::viewer
