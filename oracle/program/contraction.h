#pragma once

#include <vector>

#include "dump/schema/rounding.h"
#include "oracle/program/numbers.h"

namespace tilescope {

/// How sums of a stage round.
struct SumModel {
    TensorCore tensor_core;
    /// A bound that is only probable is this times the root of the squares of the roundings; 0: the certain one alone.
    double lambda = 0;
};

/// The sum of x y along `axes`, both of which go along these. `start`: a state that the sum is added to, or null.
/// Kernels add it at the end, or begin with it, so that partial sums are those of both; it is not in the result.
/// Types: float64 estimates of sums in the type of `accumulation`.
/// Max error: as oracle/ERROR_BUDGET.md bounds sums of products, and |x| times what y may be off by, and the other way round.
/// Valid range: sums that do not overflow.
Numbers sum_of_products(const Numbers& x, const Numbers& y, const std::vector<int>& axes,
                        Accumulation accumulation, const SumModel& model, const Numbers* start = nullptr);

/// The sum, the largest or the smallest along `axes`.
/// Types: as above.
/// Max error: for a sum half an ulp of each partial sum, from the front or from the back, certain or probable, and what the
/// terms may be off by; for the others what the largest may be off by.
Numbers sum_of_terms(const Numbers& terms, const std::vector<int>& axes, Accumulation accumulation,
                     const SumModel& model, const Numbers* start = nullptr);
Numbers largest_of(const Numbers& terms, const std::vector<int>& axes);
Numbers smallest_of(const Numbers& terms, const std::vector<int>& axes);

}  // namespace tilescope
