#pragma once

#include <optional>
#include <string>

#include "oracle/causes/evidence.h"

namespace tilescope {

/// The change where a rule of places says so, and the rule as text: "row % 8 == 4 and kv_tile == 1".
struct RuledChange {
    Change change;
    std::string rule;
};

/// Of a change that reproduces what is wrong and would make something else wrong that is right: where it has to
/// apply. nullopt where no short rule tells, and where the stage with the mistake was not dumped.
std::optional<RuledChange> with_rule(const Evidence& evidence, const Change& change);

}  // namespace tilescope
