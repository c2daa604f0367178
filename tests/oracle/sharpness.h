#pragma once

#include <vector>

#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

/// A call with everything in one type: operands, P and ds after their casts, and outputs. Outputs of fp8
/// kernels are float16.
Call call_of_dtype(Direction direction, Dtype dtype, std::uint64_t seed);

/// The computed stages of a pass.
std::vector<Stage> stages_to_change(Direction direction);

/// How small a change of one element is found, in bits after the leading one: 2^-bits of its value in either
/// direction. The element is the largest of its tile, so that it is not what is left of a cancellation.
int sharpness(const MemoryRecording& recording, Stage stage);

}  // namespace tilescope::test
