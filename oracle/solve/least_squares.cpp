#include "oracle/solve/least_squares.h"

#include <Eigen/QR>

#include "oracle/solve/effort.h"

namespace tilescope {

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

}  // namespace tilescope
