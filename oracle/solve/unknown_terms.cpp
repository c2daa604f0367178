#include "oracle/solve/unknown_terms.h"

#include "oracle/solve/least_squares.h"

#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

/// Of the largest pivot, or of a sum's own factors: less is none.
constexpr double negligible_factor = 1e-6;

}  // namespace

double UnknownTerms::added(Eigen::Index sum, const Eigen::VectorXd& left) const {
    return weights.row(sum).dot(left(spent));
}

double UnknownTerms::error(Eigen::Index sum, const Eigen::VectorXd& errors) const {
    return weights.row(sum).cwiseAbs().dot(errors(spent));
}

UnknownTerms spend_sums(const Eigen::MatrixXd& factors, const std::vector<bool>& is_known) {
    spend(2 * factors.rows() * factors.cols() * std::min(factors.rows(), factors.cols()) + factors.size());
    std::vector<Eigen::Index> usable;
    for (Eigen::Index i = 0; i < factors.rows(); ++i)
        if (is_known[std::size_t(i)]) usable.push_back(i);
    UnknownTerms terms;
    if (!usable.empty())
        for (const Eigen::Index i :
             independent_columns(factors(usable, Eigen::all).transpose(), negligible_factor))
            terms.spent.push_back(usable[std::size_t(i)]);
    const Eigen::MatrixXd taken = factors(terms.spent, Eigen::all);
    terms.from_spent = Eigen::MatrixXd::Zero(factors.cols(), std::ssize(terms.spent));
    if (!terms.spent.empty()) terms.from_spent = right_inverse(taken);
    terms.weights = factors * terms.from_spent;
    const Eigen::MatrixXd rest = factors - terms.weights * taken;
    terms.open.assign(std::size_t(factors.rows()), false);
    for (Eigen::Index i = 0; i < factors.rows(); ++i)
        terms.open[std::size_t(i)] = rest.row(i).norm() > negligible_factor * factors.row(i).norm();
    for (const Eigen::Index i : terms.spent) terms.open[std::size_t(i)] = true;
    return terms;
}

}  // namespace tilescope
