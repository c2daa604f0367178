#pragma once

// The host side of a capture on the GPU. With -DDEBUG_DUMP a Capture owns the memory that the hooks write and
// saves it; without it every member is empty, so the same host code compiles to nothing.

#include <cstddef>
#include <optional>
#include <string>

#include "dump/recording.h"

#ifdef DEBUG_DUMP
#include <memory>

#include "dump/captured_run.h"
#endif

namespace tilescope {

/// Where the sink's memory lies.
enum class SinkMemory {
    device,  ///< fastest; lost when the kernel traps
    mapped   ///< host memory that the kernel writes through the bus; intact after a trap or an illegal access
};

struct CaptureOptions {
    std::optional<Selection> selection;  ///< nullopt: the environment's, see selection_from_environment()
    std::size_t max_bytes = std::size_t(4) << 30;
    SinkMemory memory = SinkMemory::device;
    Units units;
    SideInputs side_inputs;  ///< in host memory, as the kernel gets them
    Bias bias;
    /// Device, compute capability, CUDA version and time are filled in where they are empty.
    Provenance provenance;
};

// The two classes have different names for the linker: a program may hold code compiled either way.
#ifdef DEBUG_DUMP
inline namespace hooks_on {

class Capture {
 public:
    using Options = CaptureOptions;

    /// Allocates and fills the sink's memory on the current device.
    /// Errors: Error when there is no such memory, and those of CapturePlan.
    Capture(const Problem& problem, Options options);
    explicit Capture(const Problem& problem) : Capture(problem, Options()) {}
    ~Capture();
    Capture(Capture&&) noexcept;

    /// The kernel's last argument.
    Sink sink() const;

    /// Keeps a copy of the inputs, from pointers to contiguous [batch][heads or heads_kv][seqlen][head_dim]
    /// of the problem's dtypes. A device error ends up in the recording, not in an exception.
    void inputs(const void* q, const void* k, const void* v);
    /// Merges the kernel's output buffers as CapturedRun::merge_output does, from pointers to contiguous
    /// [batch][heads][seqlen_q](, [head_dim_v]) of dtype_o and float32; lse may be null. Called after the
    /// kernel, for which it waits. A device error ends up in the recording.
    void outputs(const void* o, const float* lse);

    /// As inputs(), what a backward kernel reads beside q, k and v: contiguous [batch][heads][seqlen_q](,
    /// [head_dim_v]) of dtype_dout, dtype_o and float32. `o` may be null where the kernel reads delta.
    void backward_inputs(const void* dout, const void* o, const float* lse);
    /// As outputs(), for dq, dk and dv of a backward kernel, of dtype_dq, dtype_dk and dtype_dv: contiguous
    /// [batch][heads][seqlen_q][head_dim] for dq, [batch][dkv_heads()][seqlen_kv][head_dim or head_dim_v] for
    /// dk and dv. Each may be null.
    void gradients(const void* dq, const void* dk, const void* dv);

    /// Waits for the device, and takes what the hooks wrote. A device error ends up in the recording, not in
    /// an exception: everything is unwritten then, unless the sink's memory is mapped.
    /// Errors: Error for inputs and outputs that the problem's direction does not have, and when it has more
    /// inputs than were given.
    CapturedRun finish();
    /// finish(), then write_recording(path). Errors: those of both.
    void save(const std::string& path);

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace hooks_on

#else
inline namespace hooks_off {

class Capture {
 public:
    using Options = CaptureOptions;

    explicit Capture(const Problem&) {}
    Capture(const Problem&, const Options&) {}
    void inputs(const void*, const void*, const void*) {}
    void outputs(const void*, const float*) {}
    void backward_inputs(const void*, const void*, const float*) {}
    void gradients(const void*, const void*, const void*) {}
    void save(const std::string&) {}
};

}  // namespace hooks_off
#endif

}  // namespace tilescope
