#pragma once

#include <span>
#include <string_view>

#include "dump/watch.h"
#include "dump/watch/block.h"

namespace tilescope {

/// In order of severity.
std::span<const WatchRule> all_watch_rules();
/// The rule of that name, which exists.
const WatchRule& watch_rule(std::string_view name);

}  // namespace tilescope
