#include "viewer/window/map_picture.h"

#include <gtest/gtest.h>

#include "viewer/panels/pane_frame.h"

namespace tilescope::viewer {
namespace {

TEST(ArrangeHeads, CoversEveryHeadWithoutOverlap) {
    for (const std::int64_t heads : {1, 2, 7, 32, 128, 1000}) {
        const MapGrid grid = arrange_heads(heads, 8, 8, 300, 400, 6, 40);
        EXPECT_EQ(grid.heads, heads);
        EXPECT_GE(grid.rows() * grid.columns, heads);
        EXPECT_LE(grid.columns * grid.cell_width, 300) << heads;
        const Box last = grid.cell(heads - 1);
        EXPECT_LE(last.x + last.width, 300);
        EXPECT_GE(last.width, 34);
        EXPECT_GE(last.height, 34);
        if (grid.columns > 1 && heads > 1) {
            EXPECT_GE(grid.cell(1).x, grid.cell(0).x + grid.cell(0).width) << heads;
        }
    }
}

TEST(ArrangeHeads, FitsIntoTheRoomWhereItCan) {
    const MapGrid grid = arrange_heads(8, 4, 4, 300, 400, 6, 40);
    EXPECT_LE(grid.rows() * grid.cell_height, 400);
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
