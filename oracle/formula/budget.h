#pragma once

#include <array>

#include "dump/schema.h"
#include "dump/schema/rounding.h"

namespace tilescope {

// What error budgets add to dump/schema/rounding.h: how likely a bound is, and the oracle itself.
// oracle/ERROR_BUDGET.md derives it.

/// Relative error that budgets allow for the oracle's own float64 arithmetic.
inline constexpr double u_oracle = 0x1p-48;

/// How roundings to nearest add up. With a lambda the bound of a sum of roundings is lambda times the root of
/// the sum of their squares, where that is less than their sum: it holds with probability 1 - 2 exp(-lambda^2
/// / 2) where the roundings are independent and of mean zero. Source: Higham and Mary, A new approach to
/// probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019, theorem 2.4, by Hoeffding's
/// inequality.
struct RoundingModel {
    std::array<double, stage_count> lambda{};  ///< of each stage; 0: the certain bound, the sum
    TensorCore tensor_core;

    double lambda_of(Stage stage) const { return lambda[static_cast<std::size_t>(stage)]; }
};

/// The model whose bounds hold for all elements of a recording together with probability `confidence`.
/// `elements` are the elements of each stage; each stage gets an equal share of the probability of failing.
RoundingModel rounding_model(double confidence, const std::array<double, stage_count>& elements,
                             const TensorCore& tensor_core);

/// Probability that every bound that is not certain holds.
inline constexpr double default_confidence = 1 - 1e-6;

/// How a sum of products rounds, with the bound that is only probable.
struct AccumulationBound : SumRounding {
    double per_root_squares =
        0;  ///< times sqrt(sum s_i^2), in place of per_partial_sum where smaller; 0: none
};

/// Of a stage, on the device of the model. Max error: that of sum_rounding(); of per_root_squares with the
/// probability of `model`.
AccumulationBound accumulation_bound(const RoundingModel& model, Stage stage, Accumulation accumulation);

}  // namespace tilescope
