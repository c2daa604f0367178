#pragma once

#include "oracle/estimate.h"
#include "oracle/head_call.h"

namespace tilescope {

/// One of dq, dk and dv: a sum of products of tiles, which kernels add up in any order.
class GradientSum {
 public:
    /// Of `rows` x `cols` elements. `stage` is dq, dk or dv.
    GradientSum(Stage stage, Eigen::Index rows, Eigen::Index cols);

    /// Adds a b, what one pair of a query block and a KV tile gives. Elements of a whose score is -inf add
    /// nothing, whatever b holds there: `scores` are those of a. `b_error` is relative.
    void add(const HeadCall& call, const Estimate& a, const Matrix& scores, const Matrix& b, double b_error);

    /// What the bound of one element is made of.
    struct Parts {
        double value = 0;
        double error = 0;      ///< (in_tiles + per_magnitude * magnitude) * scale + factor * |value| + store
                               ///< and the errors of the oracle and near zero
        double scale = 1;      ///< what the sum is multiplied with
        double in_tiles = 0;   ///< of the sums within tiles, and of what they are computed from
        double magnitude = 0;  ///< no partial sum of the tiles is larger
        double per_magnitude = 0;
        bool is_probable = false;  ///< per_magnitude is
        double factor = 0;
        double store = 0;
        Accumulation accumulation = Accumulation::fma_f32;
    };
    Parts parts(const HeadCall& call, Eigen::Index row, Eigen::Index col) const;

    /// The gradient as stored, in its dtype. Bound: sums in any order, the multiplications after the sum, and
    /// the store.
    Estimate gradient(const HeadCall& call) const;

 private:
    Stage stage_;
    double terms_ = 0;  ///< of an element
    double tiles_ = 0;
    Estimate sum_;
    Matrix magnitude_;  ///< no partial sum is larger
};

}  // namespace tilescope
