#pragma once

#include <Eigen/Core>
#include <optional>

namespace tilescope {

/// The x that makes a x nearest to y.
struct LeastSquares {
    Eigen::VectorXd x;
    /// By how much each unknown deviates if every y does by 1, independently: its row of R^-1, as x = R^-1 Q^T y.
    Eigen::VectorXd deviation;
};

/// By QR. Nullopt where the equations leave an unknown open: a pivot is less than `threshold` of the largest.
std::optional<LeastSquares> solve_least_squares(const Eigen::MatrixXd& a, const Eigen::VectorXd& y,
                                                double threshold = 1e-12);

}  // namespace tilescope
