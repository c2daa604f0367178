#pragma once

#include <string>
#include <vector>

#include "dump/recording.h"

namespace tilescope {

/// What the recorded call and its kernel declare beyond plain attention, in a few words each: for the head of
/// a report.
std::vector<std::string> options_of(const Recording& recording);

}  // namespace tilescope
