#pragma once

#include <string>

namespace tilescope::testing {

/// Runs the command line with --writers, and expects every element that hooks wrote to be written by the
/// thread that the kernel declares to own it.
void expect_declared_owners(const std::string& command_line);

}  // namespace tilescope::testing
