// A file of latencies, as tile-gate latency reads it.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "dump/schema/error.h"
#include "kernels/gate/latency_csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tilescope;
    const int file = memfd_create("latencies.csv", MFD_CLOEXEC);
    const bool written = write(file, data, size) == static_cast<ssize_t>(size);
    try {
        if (written) read_latencies("/proc/self/fd/" + std::to_string(file), "");
    } catch (const Error&) {
        // Refused.
    }
    close(file);
    return 0;
}
