#pragma once

#include "dump/file/output.h"
#include "dump/recording.h"

namespace tilescope::hdf5 {

/// Writes what /inputs holds: the tensors padded, zeros where a batch entry has no rows; the side inputs; and
/// the bias. The group is there already. Errors: Failure, and Error for values that the declared dtype cannot
/// hold or that are no bias.
void write_inputs(const OutputFile& file, const Recording& recording);

}  // namespace tilescope::hdf5
