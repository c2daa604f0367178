#pragma once

#include <cstdint>

#include "kernels/faults.h"
#include "kernels/quantise.h"

namespace tilescope {

/// quantise() on the GPU, of float32 or float16 in device memory to device memory: the same bits. Waits for
/// it. The fault may be one of the quantiser's own; others do nothing.
/// Errors: Error when the launch is refused or fails.
void quantise_floats_on_device(const void* values, const ScaleGroups& groups, void* codes, float* scales);
void quantise_halves_on_device(const void* values, const ScaleGroups& groups, void* codes, float* scales,
                               Fault fault = Fault::none);

}  // namespace tilescope
