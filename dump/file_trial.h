#pragma once

#include <functional>
#include <string>

namespace tilescope {

/// Runs `task` in a copy of this process. HDF5 1.10 trusts much of what a file says, and a damaged or
/// malicious one can make it crash or loop; this tells before it happens here. Exceptions of `task` are not
/// passed on. Returns how the copy died, as words for a message; empty when it lived, or no copy could be
/// made.
std::string try_in_child(const std::function<void()>& task, unsigned cpu_seconds);

}  // namespace tilescope
