#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "oracle/describe/changed_slot.h"

namespace tilescope {

/// `changes` of a cause: an array of objects with slot, was, becomes, where, in_sum and after_sum.
nlohmann::ordered_json changes_json(std::span<const ChangedSlot> changes);

}  // namespace tilescope
