#pragma once

#include "oracle/estimate.h"
#include "oracle/head_call.h"

namespace tilescope {

/// sum += a b, or a b^T where `transposed`.
void add_product(const Matrix& a, const Matrix& b, bool transposed, Matrix& sum);

/// (start + a b) * scale, or a b^T where `transposed`, and the bound of computing it term by term as
/// `accumulation` says, from a start that is exact; `after` is the relative bound of what the kernel
/// multiplies the sum with.
Estimate sum_of_products(const HeadCall& call, Stage stage, Accumulation accumulation, const Matrix& a,
                         const Matrix& b, bool transposed, Matrix start, double scale = 1, double after = 0);

}  // namespace tilescope
