#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dump/watch_block.h"

namespace tilescope {

/// What breaks a rule: "greatest 3.2 is above 1.00001".
struct Breach {
    std::string_view what;  ///< of the tile
    double got = 0;
    std::string_view relation;
    double limit = 0;
};

std::string to_string(const Breach& breach);

/// Something that is true of every healthy kernel with finite inputs, of a tile's statistics.
struct WatchRule {
    std::string_view name;
    std::uint32_t stages;       ///< bit set
    int severity;               ///< 0 is the gravest
    std::string_view sentence;  ///< what is true of a healthy kernel
    /// Nullopt where the tile keeps the rule, and where what the rule needs was not kept. Null where tiles
    /// are not looked at one by one.
    std::optional<Breach> (*breach)(const WatchedTile& tile);
};

/// In order of severity.
std::span<const WatchRule> all_watch_rules();
/// The rule of that name, which exists.
const WatchRule& watch_rule(std::string_view name);

}  // namespace tilescope
