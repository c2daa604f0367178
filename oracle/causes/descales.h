#pragma once

#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

// The descales of an operand in a replay.

/// Whether the operand has a descale and is multiplied with it as it is staged.
bool descale_is_applied(const Evidence& evidence, Stage operand);

/// The operand's descales as in `other`; where it has fewer rows, as in its last.
void use_descale_of(const HeadCall& other, Stage operand, HeadCall& call);

}  // namespace tilescope
