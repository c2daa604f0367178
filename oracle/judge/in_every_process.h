#pragma once

#include <exception>

#include "oracle/judge.h"
#include "oracle/judge/work_sharing.h"

namespace tilescope {

/// What all processes alike make of a recording. Collective. Errors: NoVerdict, which is that of all of them, and what any of
/// them throws otherwise.
template <class Work>
auto in_every_process(WorkSharing& sharing, const Work& work) {
    decltype(work()) result{};
    std::exception_ptr no_verdict;
    sharing.blame_nobody();
    sharing.together([&] {
        try {
            result = work();
        } catch (const NoVerdict&) {
            no_verdict = std::current_exception();
        }
    });
    if (no_verdict) std::rethrow_exception(no_verdict);
    return result;
}

}  // namespace tilescope
