#pragma once

#include <span>

#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

/// Healthy recordings with everything in one type: operands, P and ds after their casts, and outputs. Outputs
/// of fp8 kernels are float16.
MemoryRecording forward_of_dtype(Dtype dtype, std::uint64_t seed);
Call backward_call_of_dtype(Dtype dtype, std::uint64_t seed);

/// The computed stages of the two passes.
std::span<const Stage> forward_stages_to_change();
std::span<const Stage> backward_stages_to_change();

/// How small a change of one element is found, in bits after the leading one: 2^-bits of its value in either
/// direction. The element is the largest of its tile, so that it is not what is left of a cancellation.
int sharpness(const MemoryRecording& recording, Stage stage);

}  // namespace tilescope::test
