#pragma once

#include "dump/file/check.h"

namespace tilescope::hdf5 {

/// Looks at the names of attributes of the file, of /problem and of /tiles/p, and at those in /inputs and /tiles.
/// Errors: Error for one that names dropout, but for an attribute that says that there is none.
void check_dropout(const InputFile& file);

}  // namespace tilescope::hdf5
