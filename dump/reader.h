#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dump/recording.h"

namespace tilescope {

/// Opens a recording that is kept in a file; dump/FORMAT.md describes it. Everything that the file declares
/// is checked against what it stores before this returns; tiles are read when asked for. Errors: Error for
/// whatever is not a complete, valid recording.
std::unique_ptr<Recording> open_recording(const std::string& path);

/// The same of a file that another process has opened so, at another place perhaps: nothing is tried in a copy of this process.
std::unique_ptr<Recording> open_tried_recording(const std::string& path);

/// The run on several ranks that the file says it is a shard of; "" where it says none, nullopt where it cannot be read:
/// whoever opens it says why.
std::optional<std::string> run_of(const std::string& path);

}  // namespace tilescope
