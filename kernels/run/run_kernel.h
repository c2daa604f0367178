#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dump/recording/captured_run.h"
#include "kernels/run/request.h"

namespace tilescope {

/// Inputs lie between stretches of NaN this long, so that what is read beyond them shows: more than a tile of
/// any kernel.
inline constexpr std::size_t guard_bytes = std::size_t(1) << 16;

/// What memory holds before the kernel writes to it.
struct MemoryFill {
    /// Every word of shared memory; nullopt: NaN on the CPU, and on the GPU what was left there.
    std::optional<std::uint32_t> shared_word;
    /// Every byte of o and lse, and of stored products. The recording knows what the kernel left unwritten by
    /// 0xff only.
    std::byte output_byte = std::byte(0xff);

    bool operator==(const MemoryFill&) const = default;
};

/// Where the tiles of a run on the GPU are until they are read.
enum class TilesLie : std::uint8_t {
    in_host_memory,
    in_place  ///< in the memory that the kernel wrote: see Capture::finish_in_place()
};

/// One run of a kernel, and its outputs as they lie in global memory: [batch][heads][seqlen_q](, [head_dim])
/// of dtype_o and float32. They are empty when the kernel failed.
struct KernelRun {
    CapturedRun recording;
    std::vector<std::byte> o;
    std::vector<std::byte> lse;
};

/// Runs the kernel on the request's engine and captures what is selected. `inputs` are those of the request.
/// An error of the kernel ends up in the recording. Errors: Error when it cannot be launched or there is no
/// memory.
KernelRun run_kernel(const RunRequest& request, RunInputs inputs, const MemoryFill& fill,
                     TilesLie tiles = TilesLie::in_host_memory);
KernelRun run_on_cpu(const RunRequest& request, RunInputs inputs, const MemoryFill& fill);
KernelRun run_on_cuda(const RunRequest& request, RunInputs inputs, const MemoryFill& fill, TilesLie tiles);

/// One run with the request's inputs; its tiles lie in place.
CapturedRun run_kernel(const RunRequest& request);

/// Errors: Error when the arrays and the tiles of a run, and those of `kept` runs before it, do not fit into
/// this machine's memory.
void require_memory(const RunRequest& request, int kept = 0, TilesLie tiles = TilesLie::in_host_memory);

/// ISO 8601, UTC.
std::string time_now();

/// What is known of the recording before the run.
Provenance provenance_of(const RunRequest& request);

/// Why kernels cannot run on a GPU here; empty when they can.
std::string why_no_gpu();
/// Why this one cannot, although others may.
std::string why_no_gpu(const KernelInfo& kernel);

/// Whether there is a GPU that runs configurations with KernelConfig::wgmma.
bool gpu_has_wgmma();

/// What a build of a kernel needs of a multiprocessor, as its compiler says.
struct KernelFigures {
    int registers = 0;              ///< of a thread
    std::size_t local_bytes = 0;    ///< of a thread: stack and spilled registers
    std::size_t static_shared = 0;  ///< bytes of a thread block
    std::size_t dynamic_shared = 0;
    std::size_t constant_bytes = 0;
};

/// The kernel with hooks against the one compiled without them.
struct InertProof {
    std::int64_t compared = 0;     ///< bytes of o and lse
    std::int64_t different = 0;    ///< those that differ
    std::string first_difference;  ///< "o, byte 12"; empty when none
    KernelFigures hooked;
    KernelFigures plain;
    // Milliseconds of a launch: medians of inert_launches rounds in which the three take turns.
    double plain_ms = 0;
    double unarmed_ms = 0;    ///< with hooks, nothing selected
    double capturing_ms = 0;  ///< with hooks, what is selected being captured
};

inline constexpr int inert_launches = 21;

/// Runs the request on the GPU with hooks, capturing what is selected, and without, and then times both.
/// Errors: Error when there is no GPU, the kernel fails or it has no build without hooks.
InertProof prove_inert(const RunRequest& request);

}  // namespace tilescope
