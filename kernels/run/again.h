#pragma once

// Running a request more than once, and comparing the runs bit by bit.

#include <vector>

#include "dump/recording/run_difference.h"
#include "kernels/run/run_kernel.h"

namespace tilescope {

/// What two runs of a request are compared by: the tiles that were captured, and o and lse whole, whether
/// they are selected or not.
struct RunBits {
    CapturedRun recording;
    CapturedRun outputs;
};

/// Errors: those of run_kernel; Error when the kernel fails, and when a selected tile has no room: what was
/// not captured cannot be compared.
KernelRun run_to_compare(const RunRequest& request, const RunInputs& inputs, const MemoryFill& fill);

/// The run's outputs were filled with 0xff, or changed to look so.
RunBits bits_of(const RunRequest& request, KernelRun run);

/// A row for each captured stage and each output, in order of computation.
std::vector<StageDifference> compare_bits(const RunBits& first, const RunBits& second);

}  // namespace tilescope
