#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <optional>
#include <vector>

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

/// The columns of a matrix that the others are sums of, most important first; a pivot less than `threshold` of the largest
/// counts as none. By QR.
std::vector<Eigen::Index> independent_columns(const Eigen::MatrixXd& a, double threshold);

/// The x of least norm that makes a x the unit matrix, for rows that are independent.
Eigen::MatrixXd right_inverse(const Eigen::MatrixXd& a);

/// The combination of columns that comes nearest to zero.
struct VanishingCombination {
    Eigen::VectorXd factors;  ///< of length 1
    double next = 0;          ///< how far the next one, orthogonal to it, stays from zero
};
/// By SVD, of two columns or more.
VanishingCombination vanishing_combination(const Eigen::MatrixXd& a);

/// The numbers x that give `results` = `rows` x best, and how far off they may be.
struct SolvedUnknowns {
    Eigen::VectorXd x;
    Eigen::VectorXd error;  ///< six standard errors of each, from what the equations leave
};

/// Equations for one vector of unknowns, collected one by one.
class LinearSystem {
 public:
    explicit LinearSystem(std::int64_t unknowns) : unknowns_(unknowns) {}

    /// `error`: how far off the result may be by rounding.
    void add(const Eigen::VectorXd& row, double result, double error);

    /// By QR. nullopt where the equations leave an unknown open, are too few to tell, or contradict each other by
    /// more than their errors.
    std::optional<SolvedUnknowns> solve() const;

 private:
    std::int64_t unknowns_;
    std::vector<double> rows_;
    std::vector<double> results_;
    double error_ = 0;  ///< sum of squares
};

}  // namespace tilescope
