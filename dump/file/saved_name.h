#pragma once

#include <string>

namespace tilescope {

/// What save_recording() adds to the name of a recording for its process: ".process4711".
std::string process_in_name(long process);

/// The path without that, so that runs of the same program have the same one: a/run.launch0.h5 of
/// a/run.launch0.process4711.h5.
std::string path_in_every_run(const std::string& path);

}  // namespace tilescope
