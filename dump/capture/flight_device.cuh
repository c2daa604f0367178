#pragma once

// The kernels of a flight recorder. None of them does anything once the recording stopped.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "dump/recording/flight.h"

namespace tilescope {

/// Launch that an entry of the ring holds, and those whose inputs and descales it holds.
struct FlightEntry {
    unsigned long long launch = ~0ull;
    unsigned long long inputs_launch = ~0ull;
    unsigned long long descales_launch = ~0ull;
};

/// What an entry holds once an array is copied.
enum class FlightCopied : std::uint8_t { a_part, inputs, descales };

/// Device memory of a recorder. Entries are `words` words apart and begin with the plan's head.
struct FlightMemory {
    FlightState* state = nullptr;
    FlightState* seen = nullptr;  ///< what the host reads: mapped memory
    FlightEntry* entries = nullptr;
    std::uint32_t* ring = nullptr;
    const std::uint32_t* head = nullptr;
    std::size_t words = 0;
    std::size_t head_words = 0;
    std::size_t tables_first = 0;  ///< words of the slot tables, within the head
    std::size_t tables_last = 0;
    std::uint32_t launches = 0;  ///< entries
};

/// Makes everything of an entry unwritten, and counts the launch.
cudaError_t flight_begin(const FlightMemory& memory, std::uint32_t entry, cudaStream_t stream);

/// Copies an array that the launch reads.
cudaError_t flight_copy(const FlightMemory& memory, std::uint32_t entry, void* to, const void* from,
                        std::size_t bytes, FlightCopied copied, cudaStream_t stream);

/// Looks at the entry, and stops the recording where it must.
cudaError_t flight_check(const FlightMemory& memory, std::uint32_t entry, const FlightStages& stages,
                         cudaStream_t stream);

}  // namespace tilescope
