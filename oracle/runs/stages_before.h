#pragma once

#include <functional>
#include <vector>

#include "dump/schema.h"

namespace tilescope {

/// The stage and those that it is computed from, by others or at once, in order of computation; not those behind stages that
/// are `is_passed`, nor these.
std::vector<Stage> stages_leading_to(Direction direction, Stage stage,
                                     const std::function<bool(Stage)>& is_passed);

/// Every stage that `stage` is computed from.
std::vector<Stage> stages_before(Direction direction, Stage stage);

}  // namespace tilescope
