#pragma once

#include "oracle/causes/site.h"

namespace tilescope {

/// Whether stages of KV tiles were recorded, and of this tile nothing, or nothing but elements that no thread wrote, as
/// where arrays are filled before and stored whole: the kernel never came to it.
bool is_left_out(const CauseSearch& world, const TileId& tile);

}  // namespace tilescope
