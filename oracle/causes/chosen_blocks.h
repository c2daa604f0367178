#pragma once

#include <vector>

#include "oracle/causes/walk.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// Query blocks that are looked at for what made a stage diverge; of dk and dv the KV tiles.
struct ChosenBlocks {
    std::vector<TileId> bad;   ///< something of the stage diverges in them
    std::vector<TileId> good;  ///< nothing does
};

/// At most 10 that are bad and 4 that are good, fewer of a gradient, evenly from the heads.
ChosenBlocks choose_blocks(const CauseSearch& world, const Report& report, Stage observed);

}  // namespace tilescope
