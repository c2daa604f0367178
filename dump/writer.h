#pragma once

#include <string>

#include "dump/recording.h"

namespace tilescope {

/// Writes a recording to `path`, whole or not at all: beside it first, then renamed. Tiles outside of
/// capture().selection are not read, and not written.
/// Errors: Error when the file cannot be written; nothing is left behind then.
void write_recording(const std::string& path, const Recording& recording);

}  // namespace tilescope
