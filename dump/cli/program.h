#pragma once

// What the programs share: however their work ends, the exit code is one of theirs.

#include <functional>
#include <string>

namespace tilescope {

/// Runs the work of a program in its own process. Unfinished files go when a signal ends it, a limit on the
/// size of files is an error of the write, and a small limit on the stack is not that of the work.
/// Returns what `work` returns.
int run_program(const std::function<int()>& work);

/// The same in a copy of the process, for work that calls HDF5 or OpenMP on what a stranger wrote. When the
/// copy ends in any other way than by returning, `unfinished` is called with how it ended, such as "it
/// crashes: Segmentation fault", and says the exit code. A signal that asks the program to end is passed on.
int run_supervised(const std::function<int()>& work,
                   const std::function<int(const std::string&)>& unfinished);

/// "it crashes: Segmentation fault", of a process that waitpid() told of and that did not end as it should.
std::string how_it_ended(int status);

}  // namespace tilescope
