#pragma once

// The host side of a capture on the GPU. With -DDEBUG_DUMP a Capture owns the memory that the hooks write and
// saves it. Without, the same host code compiles, needs neither CUDA nor tilescope::capture, and does
// nothing: members are empty, save() writes no file, and what returns a recording throws Error, for there is
// none.
//
//     tilescope::Problem problem;
//     problem.heads = problem.heads_kv = 8;
//     problem.seqlen_q = problem.seqlen_kv = 1024;
//     problem.head_dim = problem.head_dim_v = 64;
//     problem.block_m = problem.block_n = 64;
//     problem.sm_scale = 0.125;
//     tilescope::CaptureOptions options;
//     options.memory = tilescope::SinkMemory::mapped;  // what was written before a trap is kept
//     options.units.s_scaled = false;  // the hook of s stands before the multiplication by sm_scale
//     tilescope::Capture capture(problem, options);
//     capture.inputs(q, k, v);
//     attention<<<grid, block>>>(q, k, v, o TILESCOPE_SINK_ARG(capture.sink()));
//     capture.outputs(o, nullptr);
//     capture.save("run.h5");

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "dump/hook/sink.h"
#include "dump/hook/switch.h"
#include "dump/recording.h"
#include "dump/recording/captured_run.h"
#include "dump/recording/tile_statistics.h"
#include "dump/schema/dtype.h"

#if TILESCOPE_DUMP
#include <memory>
#else
#include "dump/schema/error.h"
#endif

namespace tilescope {

/// Where the sink's memory lies.
enum class SinkMemory {
    device,  ///< fastest; lost when the kernel traps
    mapped,  ///< host memory that the kernel writes through the bus; intact after a trap or an illegal access
    file     ///< mapped memory in a file on tmpfs: outlives the process too, and open_recording() opens it
};

/// An array [batch][heads][rows][columns] that the kernel reads or writes, as its pointer where it has no gaps, or with
/// the elements from one batch entry, head and row to the next: slices, packed QKV and [batch][rows][heads][columns] as
/// they lie. A row of lse is one column. Columns stand next to each other.
struct StridedArray {
    StridedArray(const void* array) : data(array) {}  // NOLINT(google-explicit-constructor)
    StridedArray(const void* array, std::int64_t batch, std::int64_t head, std::int64_t row)
        : data(array), is_strided(true), batch_stride(batch), head_stride(head), row_stride(row) {}

    /// The same of uint8 codes, or int8 ones, that stand for (code - zero_point) * scale; the recording holds these numbers,
    /// in the problem's dtype. Where the kernel's tiles hold code - zero_point, `scale` is 1 and the problem's descale the
    /// scale. For inputs only: an output in codes is rounded more coarsely than any dtype of the oracle.
    StridedArray codes(float scale, float zero_point, bool is_signed = false) const {
        return codes([=](int code) { return (float(code) - zero_point) * scale; }, is_signed);
    }
    /// The same of codes that stand for number(code), a float: with an offset as in code / 255.0f * 896 - 448, or of a table.
    /// The kernel's tiles are held against these numbers bit by bit: compute them with the roundings of the kernel.
    template <class Number, class = std::enable_if_t<std::is_invocable_v<Number, int>>>
    StridedArray codes(const Number& number, bool is_signed = false) const {
        StridedArray array = *this;
        array.byte_codes = tilescope::byte_codes(number, is_signed);
        return array;
    }

    const void* data;
    bool is_strided = false;
    std::int64_t batch_stride = 0;
    std::int64_t head_stride = 0;
    std::int64_t row_stride = 0;
    std::optional<ByteCodes> byte_codes;
};

struct CaptureOptions {
    std::optional<Selection> selection;  ///< nullopt: the environment's, see selection_from_environment()
    std::size_t max_bytes = std::size_t(4) << 30;
    SinkMemory memory = SinkMemory::device;
    /// Path for SinkMemory::file. It appears at the first sink(), with the inputs that were given until then,
    /// and save() removes it once the recording is written.
    std::string sink_file;
    /// What is kept of the elements. `checked` costs an atomic for each; `writers` costs two and twice the
    /// memory. finish_statistics() takes `statistics`, see dump/watch.h; neither they nor `writers` go with
    /// SinkMemory::file.
    SinkMode mode = SinkMode::tiles;
    /// Seed of the times that warps wait in hooks, so that a missing barrier shows; 0: they do not. nullopt: what
    /// TILESCOPE_JITTER says, as it does under tile-run repeat. Hooks that wait keep what SinkMode::checked does.
    std::optional<std::uint32_t> jitter;
    /// How long finish(), save(), outputs() and gradients() wait for the device; zero: as long as it takes. A
    /// kernel that is still running then goes on, and the memory that it writes is never freed.
    std::chrono::milliseconds time_limit{0};
    Units units;
    /// Which threads own what is recorded. The fragments wmma_16x16_f32, wmma_16x16_f16, wmma_32x8_f32,
    /// wmma_32x8_f16, wmma_8x32_f32 and wmma_8x32_f16 are asked of the GPU where a stage names them.
    ThreadLayouts threads;
    SideInputs side_inputs;  ///< in host memory, as the kernel gets them
    Bias bias;
    /// Device, compute capability, CUDA version and time are filled in where they are empty, and the run from TILESCOPE_RUN.
    Provenance provenance;
};

// The two classes have different names for the linker: a program may hold code compiled either way.
#if TILESCOPE_DUMP
inline namespace hooks_on {

class Capture {
 public:
    using Options = CaptureOptions;

    /// Captures on the current device, from any number of kernels and streams of it. Allocates and fills the
    /// sink's memory.
    /// Errors: Error when there is no GPU or no such memory, when the driver is too old, and those of
    /// CapturePlan.
    Capture(const Problem& problem, Options options);
    explicit Capture(const Problem& problem) : Capture(problem, Options()) {}
    ~Capture();
    Capture(Capture&&) noexcept;

    /// The kernel's last argument. Errors: with SinkMemory::file, Error when the file cannot be created.
    Sink sink() const;
    /// What TILESCOPE_ARM calls: sets a sink symbol, and clears it at the end of the capture.
    /// Errors: Error when another capture has armed it, or when CUDA does not find it.
    void arm(const void* symbol, int (*set)(const Sink& sink));
    /// Fills shared memory with `word`, as poison_shared_memory() does when `stream`, a cudaStream_t, comes to it, and says
    /// so in the recording: of two that differ, tile-diff then tells what was read before it was written. Called last
    /// before the kernel. Errors: those of poison_shared_memory().
    void poison(std::uint32_t word, void* stream = nullptr);
    /// Makes every tile unwritten again when `stream`, a cudaStream_t, comes to it, and forgets outputs and
    /// done(). In a CUDA graph before the kernel, each replay is recorded anew, and the last one is what
    /// finish() takes. Errors: Error when CUDA refuses.
    void restart(void* stream = nullptr);
    /// Says that all that writes to this capture, its outputs included, has been launched in `stream`, or in
    /// the streams of several calls. finish(), save(), outputs() and gradients() then wait for that alone;
    /// without, for all that the device does. Errors: Error when CUDA refuses, as it does while the stream
    /// is recorded into a graph.
    void done(void* stream = nullptr);

    /// Keeps a copy of the inputs, [batch][heads or heads_kv][seqlen][head_dim] of the problem's dtypes, from
    /// pointers where they have no gaps. A device error ends up in the recording, not in an exception.
    void inputs(const StridedArray& q, const StridedArray& k, const StridedArray& v);
    /// Merges the kernel's output buffers as CapturedRun::merge_output does, [batch][heads][seqlen_q](,
    /// [head_dim_v]) of dtype_o and float32; lse may be null. Elements that hold the 0xff bytes of a buffer filled before
    /// the launch count as unwritten. Called after the kernel, for which it waits. A device error ends up in the recording.
    /// Errors: Error for codes.
    void outputs(const StridedArray& o, const StridedArray& lse);

    /// What the rank has after merging the step, of a problem that is with_shard(): float32, [batch][heads][seqlen_q](,
    /// [head_dim_v]). Called after the merge, as outputs(). Errors: those of outputs(), and Error where the problem has no
    /// tiles for it.
    void merged(const StridedArray& o, const StridedArray& lse);

    /// As inputs(), what a backward kernel reads beside q, k and v: [batch][heads][seqlen_q](, [head_dim_v]) of
    /// dtype_dout, dtype_o and float32. `o` may be null where the kernel reads delta.
    void backward_inputs(const StridedArray& dout, const StridedArray& o, const StridedArray& lse);
    /// As outputs(), for dq, dk and dv of a backward kernel, of dtype_dq, dtype_dk and dtype_dv:
    /// [batch][heads][seqlen_q][head_dim] for dq, [batch][dkv_heads()][seqlen_kv][head_dim or head_dim_v] for
    /// dk and dv. Each may be null.
    void gradients(const StridedArray& dq, const StridedArray& dk, const StridedArray& dv);

    /// Waits for the device, and copies what the hooks wrote to host memory. A device error ends up in the
    /// recording, not in an exception: everything is unwritten then, unless the sink's memory is mapped or a
    /// file. Errors: Error for inputs and outputs that the problem's direction does not have, when it has
    /// more inputs than were given, and when a kernel completed without any hook writing and no output is
    /// given.
    CapturedRun finish();
    /// The same, but tiles in device memory stay there, as long as the run: they are copied as they are read,
    /// a piece at a time, fastest in order. What writes to the sink afterwards changes them. Errors: those of
    /// finish(), here and where tiles are read.
    CapturedRun finish_in_place();
    /// The same of a capture that keeps statistics; that no hook wrote anything is no error here, but in
    /// watch().
    StatisticsRun finish_statistics();
    /// Whether the time limit passed before the kernel ended. Then free nothing that the kernel uses:
    /// cudaFree() would wait for it, which may be forever.
    bool still_running() const;
    /// As save_recording(path) of what finish() returns, but a piece of the tiles at a time is copied to
    /// host memory while the one before is written. Errors: those of both, and Error when the device fails
    /// meanwhile.
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
    Sink sink() const { return {}; }
    void arm(const void*, int (*)(const Sink&)) {}
    void poison(std::uint32_t, void* = nullptr) {}
    void restart(void* = nullptr) {}
    void done(void* = nullptr) {}
    void inputs(const StridedArray&, const StridedArray&, const StridedArray&) {}
    void outputs(const StridedArray&, const StridedArray&) {}
    void merged(const StridedArray&, const StridedArray&) {}
    void backward_inputs(const StridedArray&, const StridedArray&, const StridedArray&) {}
    void gradients(const StridedArray&, const StridedArray&, const StridedArray&) {}
    CapturedRun finish() { refuse(); }
    CapturedRun finish_in_place() { refuse(); }
    StatisticsRun finish_statistics() { refuse(); }
    bool still_running() const { return false; }
    void save(const std::string&) {}

 private:
    [[noreturn]] static void refuse() {
        throw Error("nothing was recorded", "capture", "compile kernel and host code with -DDEBUG_DUMP");
    }
};

}  // namespace hooks_off
#endif

}  // namespace tilescope
