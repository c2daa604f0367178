#pragma once

#include <array>
#include <vector>

#include "dump/schema.h"

namespace tilescope::test {

/// A named tile of every kind: 34 of them.
inline std::vector<NamedTile> every_named_tile() {
    constexpr std::array axes = {Axis::query, Axis::key, Axis::feature, Axis::unit};
    const auto is_free = [](Axis axis) { return axis == Axis::feature || axis == Axis::unit; };
    std::vector<NamedTile> tiles;
    for (const Axis rows : axes) {
        for (const Axis cols : axes) {
            if (rows == cols && !is_free(rows)) continue;
            for (const bool per_q_block : {false, true}) {
                for (const bool per_kv_tile : {false, true}) {
                    if (!per_q_block && (rows == Axis::query || cols == Axis::query)) continue;
                    if (!per_kv_tile && (rows == Axis::key || cols == Axis::key)) continue;
                    tiles.push_back({.name = "t" + std::to_string(tiles.size()),
                                     .rows = rows,
                                     .cols = cols,
                                     .row_size = is_free(rows) ? 3 : 1,
                                     .col_size = is_free(cols) ? 2 : 1,
                                     .per_q_block = per_q_block,
                                     .per_kv_tile = per_kv_tile});
                }
            }
        }
    }
    return tiles;
}

}  // namespace tilescope::test
