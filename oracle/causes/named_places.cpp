// Names for what is told from the places of what is wrong, without a replay: oracle/runs/found_places.h has how.

#include "oracle/causes/table.h"
#include "oracle/runs/found_places.h"

namespace tilescope {

std::vector<Cause> place_causes() {
    const auto none = [](const Evidence&) { return std::vector<Candidate>(); };
    const auto row = [&](std::string_view name, std::string_view family, std::string_view says,
                         std::string_view look_at) {
        return Cause{name, family, {}, says, look_at, none, {}, false, true};
    };
    return {
        row(racing_name, "race", "elements are written more than once with different values",
            "the barrier before what is written is read, and before it is written again"),
        row(skipped_name, "trip / tile", "tiles that some row sees are never computed",
            "the first and last KV tile of the loop, and the grid"),
        row("one_kv_tile", "trip / tile", "one KV tile alone is wrong",
            "what the kernel does otherwise in that tile"),
        row("one_head", "head / batch map", "one head alone is wrong", "indices that depend on the head"),
        row("one_batch", "head / batch map", "one batch entry alone is wrong",
            "indices that depend on the batch"),
        row("one_warp", "reduction", "the rows of some warps alone are wrong", "what depends on the warp"),
        row("one_lane_group", "layout", "the elements of some lanes alone are wrong",
            "what depends on the lane: its rows and columns, shuffles, and branches on it"),
        row("one_register", "layout", "some registers of every lane alone are wrong",
            "the loop over the elements of a fragment, and what its index stands for"),
        row("tile_edge", "coverage", "a part of the tile's rows or columns alone is wrong",
            "the bounds of loops over rows and columns"),
        row("periodic_columns", "layout", "columns at a stride are wrong", "what a lane's columns depend on"),
        row("periodic_rows", "layout", "rows at a stride are wrong", "what a lane's rows depend on"),
    };
}

}  // namespace tilescope
