#pragma once

#include <atomic>
#include <cstddef>
#include <exception>

#include "oracle/judge/team.h"
#include "oracle/solve/effort.h"

namespace tilescope {

/// Calls work(i) for each i below `count`, from `threads` threads, 0 for one a core. The first exception
/// stops the others and is thrown again. What they spend is spent by whoever calls.
template <class Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
    std::atomic<bool> failed = false;
    std::exception_ptr failure;
    Effort* const effort = spending_on();
#pragma omp parallel for schedule(dynamic) num_threads(team_size(threads))
    for (std::size_t i = 0; i < count; ++i) {
        if (failed) continue;
        try {
            const Spending spending(effort);
            work(i);
        } catch (...) {
#pragma omp critical
            if (!failed.exchange(true)) failure = std::current_exception();
        }
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace tilescope
