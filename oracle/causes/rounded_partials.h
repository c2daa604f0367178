#pragma once

#include "dump/recording.h"

namespace tilescope {

/// Whether every recorded o is what splits give whose o was rounded to `dtype` before they were merged, and some are what
/// unrounded ones do not give. Errors: Error for a damaged file.
bool partials_show(const Recording& recording, Dtype dtype, double confidence);

}  // namespace tilescope
