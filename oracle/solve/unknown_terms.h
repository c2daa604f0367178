#pragma once

#include <Eigen/Core>
#include <vector>

namespace tilescope {

/// Sums of which some terms are a factor times a number that nobody knows. Some of the sums tell these numbers, and are spent;
/// the others have to agree with them.
struct UnknownTerms {
    std::vector<Eigen::Index> spent;  ///< sums that tell the unknowns
    /// Each unknown from what is left of the spent sums: unknowns x spent.
    Eigen::MatrixXd from_spent;
    /// What the unknowns add to each sum, from the same: sums x spent.
    Eigen::MatrixXd weights;
    /// Sums of which nothing can be said: those that were spent, and those that take an unknown that no sum tells.
    std::vector<bool> open;

    /// What the unknowns add to a sum, and how far off that may be, where `left` is what is left of every sum without
    /// them, and `error` how far off that may be.
    double added(Eigen::Index sum, const Eigen::VectorXd& left) const;
    double error(Eigen::Index sum, const Eigen::VectorXd& errors) const;
};

/// `factors`: sums x unknowns. `is_known`: sums that can be spent. Taken are those that determine most, as few as there are
/// unknowns.
UnknownTerms spend_sums(const Eigen::MatrixXd& factors, const std::vector<bool>& is_known);

}  // namespace tilescope
