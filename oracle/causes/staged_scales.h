#pragma once

#include <vector>

#include "oracle/causes/other_declarations.h"

namespace tilescope {

/// Ways to declare that q, k or both are multiplied with a scale and rounded before their product, as kernels do it
/// that record neither. A rounding widens the budgets of all that follows: only those ways are given with which the
/// block's stage `wrong` is right without any, computed from operands that were rounded so.
/// `block` is that of the first divergence.
std::vector<Declared> ways_to_scale_operands(const Recording& recording, const Declared& as, Stage wrong,
                                             const Block& block);

}  // namespace tilescope
