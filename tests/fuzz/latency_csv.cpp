// A file of latencies, as tile-gate latency reads it.

#include <cstddef>
#include <cstdint>

#include "dump/schema/error.h"
#include "kernels/gate/latency_csv.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tilescope;
    const fuzz::MemoryFile file("latencies.csv", data, size);
    try {
        read_latencies(file.path(), "");
    } catch (const Error&) {
        // Refused.
    }
    return 0;
}
