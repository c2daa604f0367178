#pragma once

// The host side of a capture of a declared kernel (dump/program_hook.h) on the GPU. With -DDEBUG_DUMP a ProgramCapture owns the
// memory that the hooks write and saves it. Without, the same host code compiles, needs neither CUDA nor tilescope::capture, and
// does nothing.
//
//     tilescope::ProgramCapture capture(gemm::text());
//     capture.input("a", a, {n, k});
//     capture.input("w", w, {m, k});
//     gemm_kernel<<<grid, block>>>(a, w, y TILESCOPE_PROGRAM_SINK_ARG(capture.sink()));
//     capture.output("y", y, {n, m});
//     capture.save("gemm.h5");

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dump/hook/program_sink.h"
#include "dump/hook/switch.h"
#include "dump/recording/program_recording.h"

#if TILESCOPE_DUMP
#include <memory>
#else
#include "dump/schema/error.h"
#endif

namespace tilescope {

struct ProgramCaptureOptions {
    /// Which part of which stages, as "n=0-3:k=2:stage=acc"; nullopt: what TILESCOPE_SELECT says. See recorded_stages().
    std::optional<std::string> selection;
    std::map<std::string, std::int64_t> sizes;  ///< that no shape of an input tells
    /// Stages that the kernel has hooks for; empty: those that a hook comes to.
    std::vector<std::string> stages;
    std::size_t max_bytes = std::size_t(4) << 30;
    /// Memory of the host, which the kernel writes through the bus: what was written before a trap is kept.
    bool is_mapped = false;
    /// Device, compute capability, CUDA version and time are filled in where they are empty.
    Provenance provenance;
};

// The two classes have different names for the linker: a program may hold code compiled either way.
#if TILESCOPE_DUMP
inline namespace hooks_on {

class ProgramCapture {
 public:
    using Options = ProgramCaptureOptions;

    /// Captures on the current device. Errors: Error for a text that is no program, with line and column.
    explicit ProgramCapture(const std::string& text, Options options = {});
    ~ProgramCapture();
    ProgramCapture(ProgramCapture&&) noexcept;

    /// Keeps a copy of an input, row-major along its indices, of the dtype that the text declares, from memory of the device or
    /// of the host. Called before sink(). Errors: Error for what is no input, and when CUDA refuses.
    void input(const std::string& name, const void* data, const std::vector<std::int64_t>& shape);
    void input(const std::string& name, float number);

    /// The kernel's last argument. The first call allocates the memory that hooks write, unwritten.
    /// Errors: Error for inputs that are missing or do not fit, a selection that leaves nothing, more than max_bytes; when there is no
    /// GPU or no such memory.
    ProgramSink sink();

    /// Takes a stage as the kernel stored it itself, whole and row-major, of the dtype that the text declares: outputs, and states
    /// [blocks, ...] or without the blocks, as `shape` says. Called after the kernel, for which it waits.
    /// Errors: Error for what is no stage, and when the kernel failed, unless `is_mapped`: the output is left out then.
    void output(const std::string& name, const void* data, const std::vector<std::int64_t>& shape);

    /// Waits for the device, and copies what hooks and outputs hold. Errors: Error when the kernel failed, unless `is_mapped`; where
    /// hooks gave places that a stage does not have, and where no hook wrote anything and no output is given.
    ProgramRecording finish();
    /// Writes what finish() returns. Errors: those of both, and of write_program_recording().
    void save(const std::string& path);

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace hooks_on

#else
inline namespace hooks_off {

class ProgramCapture {
 public:
    using Options = ProgramCaptureOptions;

    explicit ProgramCapture(const std::string&, const Options& = {}) {}
    void input(const std::string&, const void*, const std::vector<std::int64_t>&) {}
    void input(const std::string&, float) {}
    ProgramSink sink() { return {}; }
    void output(const std::string&, const void*, const std::vector<std::int64_t>&) {}
    ProgramRecording finish() {
        throw Error("nothing was recorded", "capture", "compile kernel and host code with -DDEBUG_DUMP");
    }
    void save(const std::string&) {}
};

}  // namespace hooks_off
#endif

}  // namespace tilescope
