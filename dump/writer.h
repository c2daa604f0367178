#pragma once

#include <string>

#include "dump/recording.h"

namespace tilescope {

/// Writes a recording to `path`, whole or not at all: beside it first, then renamed. Tiles outside of
/// capture().selection are not read, and not written.
/// Errors: Error when the file cannot be written; nothing is left behind then.
void write_recording(const std::string& path, const Recording& recording);

/// The same, for programs that record more than once, or in several processes: where the environment has
/// TILESCOPE_DIR, into that folder, which it creates, and never over a file that is there. The name is that of `path`
/// with which save of the process it is, its rank where a launcher says one, and its process:
/// run.launch0.rank3.process4711.h5. The first time it says so on stderr. Returns where the recording is.
/// Errors: those of write_recording(), and Error when the folder cannot be created.
std::string save_recording(const std::string& path, const Recording& recording);

}  // namespace tilescope
