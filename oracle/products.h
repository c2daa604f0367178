#pragma once

#include "oracle/estimate.h"
#include "oracle/head_call.h"

namespace tilescope {

/// Whether neither a NaN nor an infinity is among them.
bool all_finite(const Matrix& values);

/// sum += a b, or a b^T where `transposed`.
/// Types: float64.
/// Max error: that of float64 sums of so many terms; budgets allow u_oracle for it.
/// Valid range: every value, as float64 arithmetic has it.
void add_product(const Matrix& a, const Matrix& b, bool transposed, Matrix& sum);

/// (start + a b) * scale, or a b^T where `transposed`, and the bound of computing it term by term as
/// `accumulation` says, from a start that is exact; `after` is the relative bound of what the kernel
/// multiplies the sum with.
/// Types: float64 estimates of sums in the types of `accumulation`.
/// Max error: accumulation_bound() over the partial sums, `after`, u_oracle and flush_to_zero.
/// Valid range: that of accumulation_bound().
Estimate sum_of_products(const HeadCall& call, Stage stage, Accumulation accumulation, const Matrix& a,
                         const Matrix& b, bool transposed, Matrix start, double scale = 1, double after = 0);

}  // namespace tilescope
