#pragma once

#include <functional>
#include <string>

namespace tilescope {

/// Runs `task` in a copy of this process, with bounded time and memory. HDF5 1.10 believes much of what a
/// file says: a damaged or malicious one can make it crash, loop or allocate without end, and this finds out
/// where it does no harm. Errors: Error with what `task` threw, or naming `where` when the copy died.
void try_in_child(const std::function<void()>& task, const std::string& where);

}  // namespace tilescope
