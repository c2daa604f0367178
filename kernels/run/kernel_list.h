#pragma once

#include <string>

namespace tilescope {

/// What tile-run list prints: kernels, inputs and faults.
std::string list_as_text();
std::string list_as_json();

}  // namespace tilescope
