#pragma once

#include <stdexcept>
#include <string>

#include "dump/schema/text.h"

namespace tilescope {

/// A failure a person can act on: what went wrong, where, and what to do, on one line that may be shown
/// whatever the parts hold (text.h), since they quote files. Tools print it and exit 2.
class Error : public std::runtime_error {
 public:
    /// Each part is cut after about so many bytes, for what to do to be seen behind whatever was quoted.
    static constexpr std::size_t longest_part = 1000;

    Error(const std::string& what, const std::string& where, const std::string& what_to_do)
        : std::runtime_error(shortened(where, longest_part) + ": " + shortened(what, longest_part) + "; " +
                             shortened(what_to_do, longest_part)) {}
    /// A line that was put together before, as one that comes from another process.
    explicit Error(const std::string& line) : std::runtime_error(one_line(line)) {}
};

}  // namespace tilescope
