#include "viewer/window/map_picture.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tilescope::viewer
