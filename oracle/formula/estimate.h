#pragma once

#include <Eigen/Core>
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
