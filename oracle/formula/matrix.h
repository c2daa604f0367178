#pragma once

// The matrices of the oracle by name, for who hands them on without looking inside: Eigen takes long to read.
namespace Eigen {
template <typename Scalar, int Rows, int Cols, int Options, int MaxRows, int MaxCols>
class Matrix;
}  // namespace Eigen

namespace tilescope {

/// Row-major, so that a row of a matrix is a row of a tile; of any size.
using Matrix = Eigen::Matrix<double, -1, -1, 1, -1, -1>;
using MatrixF = Eigen::Matrix<float, -1, -1, 1, -1, -1>;

struct Estimate;

}  // namespace tilescope
