#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dump/schema.h"
#include "oracle/formula/estimate.h"

namespace tilescope {

/// A dumped tile of a stage, and what a right kernel would have in it.
struct SeenTile {
    TileId id{};
    MatrixF got{};
    Estimate expected{};           ///< in the dump's units
    std::vector<bool> wrong{};     ///< of each element, row-major
    std::vector<bool> unjudged{};  ///< of each element: nothing can be expected of a healthy kernel either
    std::vector<bool> bad_rows{};  ///< of each row: something in it is wrong
    std::int64_t wrong_elements = 0;
    std::int64_t compared = 0;

    bool is_bad() const { return wrong_elements > 0; }
    bool is_wrong(Eigen::Index row, Eigen::Index col) const {
        return wrong[std::size_t(row * got.cols() + col)];
    }
};

/// Tiles of a stage that diverges: some of those that do, and of those that do not.
struct SeenTiles {
    Stage stage = Stage::q;
    std::vector<const SeenTile*> tiles;
    std::int64_t wrong_elements = 0;
    std::int64_t compared = 0;
};

/// A NaN that the kernel computed, not the NaN that marks an unwritten element.
bool is_computed_nan(float got);

}  // namespace tilescope
