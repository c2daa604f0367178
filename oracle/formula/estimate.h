#pragma once

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <type_traits>

#include "oracle/formula/matrix.h"

namespace tilescope {

inline constexpr double inf = std::numeric_limits<double>::infinity();

static_assert(std::is_same_v<Matrix, Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>);
static_assert(std::is_same_v<MatrixF, Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>);

/// What a stage should hold: |kernel's value - value| <= error for any kernel that computes in its declared
/// precision. NaN in `value` means that nothing can be expected, because what the stage is computed from is
/// NaN.
struct Estimate {
    Matrix value;
    Matrix error;
    /// How far from `value` a kernel could be at all, whatever it made of its scores (an o, for example, lies
    /// within V). An error as large as this would pass anything: the element is then not judged. 0: only one
    /// value is possible, and it is judged. Empty: no such bound is known.
    Matrix spread{};
};

/// How far `got` is from an expected value. Where a kernel may choose within an interval, as of a maximum that stays behind, it takes
/// one of the ends: from that, if it is there.
inline double distance_from(double value, double error, double got) {
    constexpr double least_interval = 0x1p-14;  // of the number; else it is no choice, but rounding
    constexpr double most_off = 0x1p-10;        // of the interval, from its end
    const double off = std::abs(got - value);
    const double off_end = std::abs(off - error);
    const bool is_at_end =
        std::isfinite(error) && error > least_interval * std::abs(got) && off_end <= most_off * error;
    return is_at_end ? off_end : off;
}

inline Estimate zeros(Eigen::Index rows, Eigen::Index cols) {
    return {Matrix::Zero(rows, cols), Matrix::Zero(rows, cols), {}};
}

/// In order: Eigen's own sum depends on where the row lies in memory.
inline double sum_of_row(const Matrix& matrix, Eigen::Index row) {
    double sum = 0;
    for (Eigen::Index col = 0; col < matrix.cols(); ++col) sum += matrix(row, col);
    return sum;
}

}  // namespace tilescope
