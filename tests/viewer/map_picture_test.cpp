#include "viewer/window/map_picture.h"

#include <gtest/gtest.h>

#include "viewer/panels/pane_frame.h"

namespace tilescope::viewer {
namespace {

MapRoom room_of(int width, int height) {
    return {.width = width,
            .height = height,
            .gap_across = 6,
            .gap_down = 6,
            .label = 0,
            .between = 0,
            .smallest = 40};
}

TEST(ArrangeHeads, CoversEveryHeadWithoutOverlap) {
    for (const std::int64_t heads : {1, 2, 7, 32, 128, 1000}) {
        const MapGrid grid = arrange_heads({1, heads}, 8, 8, room_of(300, 400));
        EXPECT_EQ(grid.count(), heads);
        EXPECT_LE(grid.width(), 300) << heads;
        const Box last = grid.cell(heads - 1);
        EXPECT_LE(last.x + last.width, 300);
        EXPECT_LE(last.y + last.height, float(grid.height()));
        EXPECT_GE(last.width, 34);
        EXPECT_GE(last.height, 34);
        if (grid.columns > 1 && heads > 1) {
            EXPECT_GE(grid.cell(1).x, grid.cell(0).x + grid.cell(0).width) << heads;
        }
    }
}

TEST(ArrangeHeads, FitsIntoTheRoomWhereItCan) {
    const MapGrid grid = arrange_heads({1, 8}, 4, 4, room_of(300, 400));
    EXPECT_LE(grid.height(), 400);
}

TEST(ArrangeHeads, KeepsGroupsTogetherBelowTheirNames) {
    MapRoom room = room_of(400, 500);
    room.label = 18;
    room.between = 10;
    for (const HeadGroups heads : {HeadGroups{1, 8}, HeadGroups{8, 4}, HeadGroups{4, 8}, HeadGroups{16, 2}}) {
        const MapGrid grid = arrange_heads(heads, 4, 4, room);
        EXPECT_LE(grid.width(), 400);
        for (std::int64_t i = 0; i < grid.count(); ++i) {
            const Box group = grid.group(i / heads.heads);
            const Box cell = grid.cell(i);
            EXPECT_GE(cell.x, group.x);
            EXPECT_GE(cell.y, group.y + 18);
            EXPECT_LE(cell.x + cell.width, group.x + group.width);
            EXPECT_LE(cell.y + cell.height, group.y + group.height);
            EXPECT_EQ(grid.head_at(cell.x + cell.width / 2, cell.y + cell.height / 2), i);
        }
        for (std::int64_t i = 0; i < heads.groups; ++i)
            EXPECT_EQ(grid.head_at(grid.group(i).x, grid.group(i).y + 1), std::nullopt) << "its name";
    }
}

TEST(ArrangeHeads, ZoomedHeadsAreLargerAndTheirNamesAreNot) {
    MapRoom room = room_of(400, 500);
    room.label = 18;
    const MapGrid grid = arrange_heads({4, 2}, 4, 4, room);
    const MapGrid zoomed = grid.zoomed(2);
    EXPECT_FLOAT_EQ(zoomed.cell(7).width, 2 * grid.cell(7).width);
    EXPECT_FLOAT_EQ(zoomed.cell(7).height, 2 * grid.cell(7).height);
    EXPECT_FLOAT_EQ(zoomed.cell(0).y, 18);
    EXPECT_EQ(zoomed.head_at(zoomed.cell(7).x + 1, zoomed.cell(7).y + 1), 7);
}

Problem problem_of_heads(std::int64_t batch, std::int64_t heads, std::int64_t heads_kv) {
    Problem problem;
    problem.batch = batch;
    problem.heads = heads;
    problem.heads_kv = heads_kv;
    return problem;
}

TEST(HeadGroups, AreOfAKvHeadOrOfABatchEntry) {
    const auto groups = [](const Problem& problem) {
        const HeadGroups found = head_groups(problem, Stage::s);
        return std::pair(found.groups, found.heads);
    };
    EXPECT_EQ(groups(problem_of_heads(1, 8, 2)), std::pair(std::int64_t(2), std::int64_t(4)));
    EXPECT_EQ(groups(problem_of_heads(3, 8, 2)), std::pair(std::int64_t(6), std::int64_t(4)));
    EXPECT_EQ(groups(problem_of_heads(3, 8, 8)), std::pair(std::int64_t(3), std::int64_t(8)));
    EXPECT_EQ(groups(problem_of_heads(1, 8, 8)), std::pair(std::int64_t(1), std::int64_t(8)));
}

PaneFrame pane_of_rows_10_to_20() {
    PaneFrame pane;
    pane.view = {10, 100, 10, 40};
    pane.at = {50, 30};
    pane.size = {800, 300};
    return pane;
}

TEST(PlaceOfAPicture, OfItsOwnElementsIsThePane) {
    const PaneFrame pane = pane_of_rows_10_to_20();
    const Box box = pane.box_of(pane.view);
    EXPECT_EQ(box.x, 50);
    EXPECT_EQ(box.y, 30);
    EXPECT_EQ(box.width, 800);
    EXPECT_EQ(box.height, 300);
}

TEST(PlaceOfAPicture, OfOtherElementsIsWhereTheyAre) {
    // 30 pixels a row and 20 a column.
    const Box moved = pane_of_rows_10_to_20().box_of({12, 95, 10, 40});
    EXPECT_FLOAT_EQ(moved.x, 50 - 5 * 20);
    EXPECT_FLOAT_EQ(moved.y, 30 + 2 * 30);
    EXPECT_FLOAT_EQ(moved.width, 800);
    EXPECT_FLOAT_EQ(moved.height, 300);
    const Box zoomed = pane_of_rows_10_to_20().box_of({0, 90, 40, 80});
    EXPECT_FLOAT_EQ(zoomed.x, 50 - 10 * 20);
    EXPECT_FLOAT_EQ(zoomed.y, 30 - 10 * 30);
    EXPECT_FLOAT_EQ(zoomed.width, 1600);
    EXPECT_FLOAT_EQ(zoomed.height, 1200);
}

}  // namespace
}  // namespace tilescope::viewer
