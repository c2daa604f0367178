#pragma once

#include <functional>
#include <string>

#include "dump/schema/error.h"

namespace tilescope::test {

/// The line of the Error that the call throws; "accepted" when it throws none.
inline std::string error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

}  // namespace tilescope::test
