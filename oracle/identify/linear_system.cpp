#include "oracle/identify/linear_system.h"

#include <Eigen/QR>
#include <cmath>

namespace tilescope {

namespace {

/// More equations than these times the unknowns tell no more.
constexpr std::int64_t enough_equations = 4;

}  // namespace

void LinearSystem::add(const Eigen::VectorXd& row, double result, double error) {
    if (std::ssize(results_) >= enough_equations * unknowns_ + 64) return;
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
    Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(a);
    qr.setThreshold(1e-6);
    if (qr.rank() < unknowns_) return std::nullopt;
    SolvedUnknowns solution{qr.solve(y), {}};
    const double left = (y - a * solution.x).squaredNorm();
    if (!(left <= error_)) return std::nullopt;
    // x = R^-1 Q^T y: an error of a result reaches it through the rows of R^-1.
    const Eigen::MatrixXd r = qr.matrixR().topRows(unknowns_).triangularView<Eigen::Upper>();
    const Eigen::MatrixXd inverse =
        r.triangularView<Eigen::Upper>().solve(Eigen::MatrixXd::Identity(unknowns_, unknowns_));
    const double deviation = std::sqrt(left / double(equations - unknowns_));
    solution.error = qr.colsPermutation() * (6 * deviation * inverse.rowwise().norm());
    return solution;
}

}  // namespace tilescope
