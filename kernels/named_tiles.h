#pragma once

#include <string_view>
#include <vector>

#include "dump/schema.h"

namespace tilescope {

/// What the hooks of every bundled kernel can record beside the stages, in the order of their
/// TILESCOPE_NAMED_TILE. A run declares them where its selection names one.
const std::vector<NamedTile>& bundled_tiles();

}  // namespace tilescope
