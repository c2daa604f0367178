#pragma once

// The host side of a capture on the GPU. With -DDEBUG_DUMP a Capture owns the memory that the hooks write and
// saves it; without it every member is empty, so the same host code compiles to nothing.

#include <cstddef>
#include <string>

#ifdef DEBUG_DUMP

#include <memory>

#include "dump/captured_run.h"

namespace tilescope {

/// Where the sink's memory lies.
enum class SinkMemory {
    device,  ///< fastest; lost when the kernel traps
    mapped   ///< host memory that the kernel writes through the bus; intact after a trap or an illegal access
};

class Capture {
 public:
    struct Options {
        Selection selection = selection_from_environment();
        std::size_t max_bytes = std::size_t(4) << 30;
        SinkMemory memory = SinkMemory::device;
        Units units;
        Provenance provenance;
    };

    /// Allocates and fills the sink's memory. Errors: Error when it cannot.
    Capture(const Problem& problem, Options options);
    explicit Capture(const Problem& problem) : Capture(problem, Options()) {}
    ~Capture();
    Capture(Capture&&) noexcept;

    /// The kernel's last argument.
    Sink sink() const;

    /// Keeps a copy of the inputs, from device pointers to contiguous [batch][heads or
    /// heads_kv][seqlen][head_dim].
    void inputs(const void* q, const void* k, const void* v);
    /// Merges the kernel's output buffers, device pointers to contiguous [batch][heads][seqlen_q](,
    /// [head_dim_v]); lse is float32 and may be null. Called after the kernel.
    void outputs(const void* o, const float* lse);

    /// Waits for the device, and takes what the hooks wrote. A device error ends up in the recording, not in
    /// an exception.
    CapturedRun finish();
    /// finish(), then write_recording(path).
    void save(const std::string& path);

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tilescope

#else

namespace tilescope {

struct Problem;

class Capture {
 public:
    explicit Capture(const Problem&) {}
    void inputs(const void*, const void*, const void*) {}
    void outputs(const void*, const float*) {}
    void save(const std::string&) {}
};

}  // namespace tilescope

#endif
