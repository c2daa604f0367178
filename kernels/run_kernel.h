#pragma once

#include <cstdint>
#include <string>

#include "dump/captured_run.h"
#include "kernels/run_request.h"

namespace tilescope {

/// Inputs lie between stretches of NaN this long, so that what is read beyond them shows: more than a tile of
/// any kernel.
inline constexpr std::size_t guard_bytes = std::size_t(1) << 16;

/// Runs the kernel on the request's engine and captures what is selected. An error of the kernel ends up in
/// the recording. Errors: Error when it cannot be launched or there is no memory.
CapturedRun run_kernel(const RunRequest& request);
CapturedRun run_on_cpu(const RunRequest& request);
CapturedRun run_on_cuda(const RunRequest& request);

/// Errors: Error when the arrays and the tiles of the run do not fit into this machine's memory.
void require_memory(const RunRequest& request);

/// What is known of the recording before the run.
Provenance provenance_of(const RunRequest& request);

/// Why kernels cannot run on a GPU here; empty when they can.
std::string why_no_gpu();

/// Bytes of o and lse that differ between the kernel with hooks and the one compiled without them.
struct InertProof {
    std::int64_t compared = 0;
    std::int64_t different = 0;
    std::string first_difference;  ///< "o, byte 12"; empty when none
};

/// Runs the request on the GPU twice: with hooks, capturing what is selected, and without.
/// Errors: Error when there is no GPU, the kernel fails or it has no build without hooks.
InertProof prove_inert(const RunRequest& request);

}  // namespace tilescope
