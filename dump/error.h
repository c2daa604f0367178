#pragma once

#include <stdexcept>
#include <string>

namespace tilescope {

/// A failure a person can act on: what went wrong, where, and what to do. Tools print it as one line and
/// exit 2.
class Error : public std::runtime_error {
 public:
    Error(const std::string& what, const std::string& where, const std::string& what_to_do)
        : std::runtime_error(where + ": " + what + "; " + what_to_do) {}
    /// A line that was put together before, as one that comes from another process.
    explicit Error(const std::string& line) : std::runtime_error(line) {}
};

}  // namespace tilescope
