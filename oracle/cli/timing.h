#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilescope {

/// Where a process that judges with others waited, and what it needed.
struct Spent {
    double seconds = 0;     ///< from the first agreement to the last
    double queue = 0;       ///< for the next pieces; of all threads
    double messages = 0;    ///< for what is added up
    double stragglers = 0;  ///< until all processes had come as far
    double shared = 0;      ///< in which pieces were handed out
    double processor = 0;   ///< of all threads, meanwhile
    std::int64_t threads = 0;
    std::int64_t pieces = 0;
    std::int64_t takes = 0;
    std::int64_t bytes_moved = 0;
    std::int64_t bytes_asked = 0;  ///< of recordings that others have
    std::int64_t bytes_read = 0;
    std::int64_t resident_bytes = 0;  ///< at most
};

/// Of this process, so far.
double processor_seconds();
std::int64_t bytes_read_so_far();
std::int64_t most_resident_bytes();

/// As JSON.
std::string timing_text(const std::vector<Spent>& all, double seconds);

}  // namespace tilescope
