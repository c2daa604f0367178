#include "oracle/solve/least_squares.h"

#include <Eigen/QR>
#include <Eigen/SVD>
#include <cmath>

#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

/// More equations than these times the unknowns tell no more.
constexpr std::int64_t enough_equations = 4;

}  // namespace

std::optional<LeastSquares> solve_least_squares(const Eigen::MatrixXd& a, const Eigen::VectorXd& y,
                                                double threshold) {
    const Eigen::Index unknowns = a.cols();
    if (unknowns == 0) return std::nullopt;
    spend(2 * a.rows() * unknowns * unknowns);
    Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(a);
    qr.setThreshold(threshold);
    if (qr.rank() < unknowns) return std::nullopt;
    const Eigen::MatrixXd inverse = qr.matrixR().topRows(unknowns).triangularView<Eigen::Upper>().solve(
        Eigen::MatrixXd::Identity(unknowns, unknowns));
    return LeastSquares{qr.solve(y), qr.colsPermutation() * inverse.rowwise().norm()};
}

std::vector<Eigen::Index> independent_columns(const Eigen::MatrixXd& a, double threshold) {
    if (a.isZero(0)) return {};
    Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(a);
    qr.setThreshold(threshold);
    const auto& order = qr.colsPermutation().indices();
    return {order.begin(), order.begin() + qr.rank()};
}

Eigen::MatrixXd right_inverse(const Eigen::MatrixXd& a) {
    return a.completeOrthogonalDecomposition().solve(Eigen::MatrixXd::Identity(a.rows(), a.rows()));
}

VanishingCombination vanishing_combination(const Eigen::MatrixXd& a) {
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(a, Eigen::ComputeFullV);
    return {svd.matrixV().col(a.cols() - 1), svd.singularValues()(a.cols() - 2)};
}

void LinearSystem::add(const Eigen::VectorXd& row, double result, double error) {
    if (std::ssize(results_) >= enough_equations * unknowns_ + 64) return;
    spend(unknowns_);
    rows_.insert(rows_.end(), row.begin(), row.end());
    results_.push_back(result);
    error_ += error * error;
}

std::optional<SolvedUnknowns> LinearSystem::solve() const {
    const std::int64_t equations = std::ssize(results_);
    if (equations < unknowns_ + unknowns_ / 8 + 3) return std::nullopt;
    using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Eigen::MatrixXd a = Eigen::Map<const RowMajor>(rows_.data(), equations, unknowns_);
    const Eigen::Map<const Eigen::VectorXd> y(results_.data(), equations);
    const std::optional<LeastSquares> solution = solve_least_squares(a, y, 1e-6);
    if (!solution) return std::nullopt;
    const double left = (y - a * solution->x).squaredNorm();
    if (!(left <= error_)) return std::nullopt;
    const double deviation = std::sqrt(left / double(equations - unknowns_));
    return SolvedUnknowns{solution->x, 6 * deviation * solution->deviation};
}

}  // namespace tilescope
