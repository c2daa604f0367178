#pragma once

#include <Eigen/Core>
#include <optional>

namespace tilescope {

/// Sums of known terms with unknown weights: terms * weights = sums, each sum known to within its error.
struct Equations {
    Eigen::MatrixXd terms;  ///< a row for each sum
    Eigen::VectorXd sums;
    Eigen::VectorXd errors;  ///< none is 0
};

/// The weights that fit best, and what they may be off by.
struct Weights {
    Eigen::VectorXd value;
    Eigen::VectorXd uncertainty;
};

/// Nullopt where the sums leave weights open.
std::optional<Weights> weights_of(const Equations& equations);

/// Whether all but one in a hundred of the sums are those of these weights, within twice their errors. A sum
/// with larger weights may be off by more.
bool fit(const Equations& equations, const Eigen::VectorXd& weights);

/// The weights that fit, rounded to simple numbers where these do as well. First it is tried whether all terms
/// have one weight, then whether it repeats, or is that of a block of terms; every term by itself comes last:
/// few sums tell few weights. Terms that are 0 in every sum have the weight of their class, or 1. Nullopt where
/// none fit.
std::optional<Eigen::VectorXd> find_weights(const Equations& equations);

}  // namespace tilescope
