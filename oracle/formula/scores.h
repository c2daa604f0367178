#pragma once

#include <cstdint>
#include <vector>

#include "oracle/formula/budget_terms.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/formula/products.h"

namespace tilescope {

/// A tile of q, k or v in natural units, dequantised: rows of the query block or keys of the KV tile.
struct Operand {
    Matrix value;
    double error = 0;     ///< relative; 0 where these are the kernel's own numbers
    double absolute = 0;  ///< beside that, of numbers near zero

    bool is_exact() const { return error == 0 && absolute == 0; }
};

/// What its elements may be off by.
Matrix error_of(const Operand& operand);

/// What products take of q and k, where somebody has it.
struct ScoreOperands {
    const RowNorms* q_norms = nullptr;
    const Packed* k_packed = nullptr;  ///< its rows
};

/// S = sm_scale q k^T, R x N. Bound: accumulation_bound over the partial sums, and the roundings of the
/// multiplications after the sum.
Estimate scaled_scores(const HeadCall& call, const Operand& q, const Operand& k,
                       const ScoreOperands& operands = {});

/// c tanh(s / c). Bound: that of s where the tangent is steep, two roundings, the tangent's own, and one.
Estimate cap_scores(const HeadCall& call, Estimate s);

/// s + ALiBi + bias. Bound: the roundings of the products, of conversions to the kernel's units, and of the
/// sums.
Estimate add_bias(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, Estimate s);

/// Puts what the kernel masks with, exactly, where the mask hides the key.
void apply_mask(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, Estimate& s);

/// Puts -inf there in the `rows` that are named, whatever the kernel masks with: beside a score a hidden one
/// weighs nothing.
void hide_masked(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                 const std::vector<bool>& rows, Estimate& s);

/// Scaled scores up to what the dump holds: capped, biased, rounded and masked where its units say so.
Estimate dumped_from_scaled(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                            Estimate scaled);

/// The same from the operands.
Estimate dumped_scores(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, const Operand& q,
                       const Operand& k, const ScoreOperands& operands = {});

/// What one of them may be off by, and why.
BudgetTerms dumped_score_terms(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                               const Operand& q, const Operand& k, Eigen::Index row, Eigen::Index col);

/// The rest of the way, from what the dump holds to what the softmax sees.
Estimate finish_scores(const HeadCall& call, std::int64_t first_row, std::int64_t first_key, Estimate dumped);

/// What one of them may be off by, with the error of `dumped`.
BudgetTerms finishing_terms(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                            const Estimate& dumped, Eigen::Index row, Eigen::Index col);

/// Derivative of the soft cap, 1 - tanh^2(score / cap), of the scores as dumped, R x N. Bound: the tangent's
/// own, of the score that it takes, and the roundings of square and difference.
Estimate cap_derivative(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                        const Estimate& dumped);

}  // namespace tilescope
