#pragma once

#include <optional>

#include "oracle/causes/site.h"

namespace tilescope {

/// Whether anything of the tile was recorded that a thread wrote; nullopt: no stage of KV tiles was recorded.
std::optional<bool> was_computed(const CauseSearch& world, const TileId& tile);

/// Whether stages of KV tiles were recorded, and of this tile nothing, or nothing but elements that no thread wrote, as
/// where arrays are filled before and stored whole: the kernel never came to it.
bool is_left_out(const CauseSearch& world, const TileId& tile);

}  // namespace tilescope
