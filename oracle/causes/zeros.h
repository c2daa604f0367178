#pragma once

#include "oracle/causes/evidence.h"

namespace tilescope {

/// Whether rows of o that hold zeros may be so by another mistake than that nobody stored them: what the recording shows
/// contradicts neither that the kernel took them for empty or that their sum overflowed, which lse tells, nor that their V
/// was 0. Errors: Error for a damaged file.
bool zeros_have_other_explanations(const Evidence& evidence);

}  // namespace tilescope
