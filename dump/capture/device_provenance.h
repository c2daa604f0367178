#pragma once

#include "dump/recording.h"

namespace tilescope {

/// Fills in what is empty of device, compute capability, CUDA version and time, and the run from TILESCOPE_RUN.
/// Errors: Error when there is no GPU, no driver, or one of an older major version than the program's CUDA.
void describe_device(Provenance& provenance);

}  // namespace tilescope
