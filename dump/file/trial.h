#pragma once

#include <functional>
#include <string>

namespace tilescope {

/// Runs `task` in a copy of this process, with bounded time and memory. HDF5 1.10 believes much of what a
/// file says: a damaged or malicious one can make it crash, loop or allocate without end, and this finds out
/// where it does no harm. Returns what `task` returned. Errors: Error with what it threw, or naming `where` when the copy
/// died.
std::string ask_in_child(const std::function<std::string()>& task, const std::string& where);

}  // namespace tilescope
