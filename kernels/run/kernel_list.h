#pragma once

#include <string>
#include <vector>

#include "dump/cli/command_line.h"

namespace tilescope {

/// What tile-run list prints: kernels, inputs and faults.
std::string list_as_text();
std::string list_as_json();

/// The same for completions of --kernel, --input and --fault, and the stages for --stage.
std::vector<OfferedWords> listed_words();

}  // namespace tilescope
