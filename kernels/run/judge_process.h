#pragma once

#include <cstdint>
#include <string>

namespace tilescope {

/// What tile-diff says of a recording.
struct Judgement {
    bool judged = false;        ///< a verdict with something compared
    bool match = false;         ///< and no stage diverges
    std::string stage;          ///< the first that diverges; empty: none
    std::string summary;        ///< its last line, or why there is no verdict
    std::int64_t compared = 0;  ///< elements of all stages
};

/// The program `name` beside this one. Errors: Error when there is none.
std::string program_beside(const std::string& name);

/// Runs tile-diff on a recording; its report is written beside it and removed.
/// Errors: Error when it cannot be started.
Judgement judge_recording(const std::string& tile_diff, const std::string& recording);

}  // namespace tilescope
