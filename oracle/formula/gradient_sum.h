#pragma once

#include "oracle/formula/budget_terms.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/formula/scores.h"

namespace tilescope {

/// One of dq, dk and dv: a sum of products of tiles, which kernels add up in any order.
class GradientSum {
 public:
    /// Of `rows` x `cols` elements. `stage` is dq, dk or dv.
    GradientSum(Stage stage, Eigen::Index rows, Eigen::Index cols);

    /// Adds a b, what one pair of a query block and a KV tile gives. Elements of a whose score is -inf add
    /// nothing, whatever b holds there: `scores` are those of a.
    void add(const HeadCall& call, const Estimate& a, const Matrix& scores, const Operand& b);

    /// The gradient as stored, in its dtype. Bound: sums in any order, the multiplications after the sum, and
    /// the store.
    Estimate gradient(const HeadCall& call) const;

    /// The parts of that bound at the first element.
    BudgetTerms terms(const HeadCall& call) const;

 private:
    /// `in_tiles`: what the sums within tiles are off by, and what they are computed from.
    template <class Error>
    Bounded<Error> element(const HeadCall& call, Eigen::Index row, Eigen::Index col, Error in_tiles) const;

    Stage stage_;
    double terms_ = 0;  ///< of an element
    double tiles_ = 0;
    Estimate sum_;
    Matrix magnitude_;  ///< no partial sum is larger
    // Of the first element, what it inherits from the two factors.
    double of_weights_ = 0;
    double of_operand_ = 0;
};

}  // namespace tilescope
