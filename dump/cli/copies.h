#pragma once

// Work of many pieces, each in a process of its own: one that crashes takes no other with it.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace tilescope {

/// How a copy of the process ended.
struct CopyEnd {
    std::optional<std::string> said;  ///< what its work returned; nullopt: it ended in another way
    std::string how;                  ///< that way, such as "it crashes: Segmentation fault"
};

/// Runs `work` of 0 to count - 1 in a copy of the process each, at most `at_once` of them at a time, and hands each
/// one's end to `take`, in that order. What one returned is held until its turn, so none runs far ahead of it. `take`
/// says whether to go on; copies that still run then are ended. Where no process can be started, this one does the work.
void run_copies(std::size_t count, int at_once, const std::function<std::string(std::size_t)>& work,
                const std::function<bool(std::size_t, const CopyEnd&)>& take);

}  // namespace tilescope
