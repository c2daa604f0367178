#pragma once

#include "oracle/estimate.h"
#include "oracle/vector_kernels.h"

namespace tilescope {

inline View<const double> view(const Matrix& m) {
    return {m.data(), m.rows(), m.cols(), m.cols()};
}

inline View<double> view(Matrix& m) {
    return {m.data(), m.rows(), m.cols(), m.cols()};
}

}  // namespace tilescope
