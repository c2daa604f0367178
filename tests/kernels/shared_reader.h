#pragma once

#include <cstddef>
#include <cstdint>

namespace tilescope::testing {

/// What a kernel finds in shared memory that it has not written.
struct SharedCensus {
    std::size_t multiprocessors = 0;  ///< that a block ran on
    unsigned long long words = 0;     ///< that were read
    unsigned long long others = 0;    ///< of these, those that differ from the expected word
};

std::size_t multiprocessor_count();
std::size_t largest_shared_memory();  ///< bytes that a block can ask for

/// Reads `bytes` of dynamic shared memory in each of many blocks. Throws std::runtime_error for a CUDA error.
SharedCensus read_shared_memory(std::uint32_t expected, std::size_t bytes);

}  // namespace tilescope::testing
