#include "oracle/replay/drift.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/formula/vector_kernels.h"

namespace tilescope {

namespace {

double scale_of(Stage stage, const RunningState& exact, Eigen::Index row) {
    if (stage == Stage::m) return 1;
    if (stage == Stage::l) return sum_of_row(exact.l.value, row);
    const auto magnitude = exact.acc.value.row(row).array().abs();
    return magnitude.isFinite().select(magnitude, 0).maxCoeff();
}

/// The same as the vector kernel of that name, of dumped values that are not in natural units.
Distances distances(const MatrixF& got, const DumpFactor& factor, const Matrix& value, double by,
                    Eigen::Index row) {
    Distances found;
    for (Eigen::Index col = 0; col < value.cols(); ++col) {
        if (is_unwritten(got(row, col)) || !std::isfinite(value(row, col))) continue;
        const double off = std::abs(double(got(row, col)) / factor.at(row, col) - value(row, col) * by);
        found.any = true;
        found.unknown = found.unknown || std::isnan(off);
        found.largest = off > found.largest ? off : found.largest;
    }
    return found;
}

}  // namespace

double drift_of_row(const Units& units, Stage stage, const MatrixF& got, const DumpFactor& factor,
                    const RunningState& exact, Eigen::Index row) {
    const Matrix& value = (stage == Stage::m ? exact.m : stage == Stage::l ? exact.l : exact.acc).value;
    const bool over_l = stage == Stage::acc && units.acc_normalised && sum_of_row(exact.l.value, row) != 0;
    const double by = over_l ? 1 / sum_of_row(exact.l.value, row) : 1;
    const double scale = scale_of(stage, exact, row) * by;
    const Distances found =
        factor.is_one()
            ? vector_kernels().distances({&got(row, 0), std::size_t(value.cols())}, &value(row, 0), by)
            : distances(got, factor, value, by, row);
    if (!found.any) return std::numeric_limits<double>::quiet_NaN();
    const double relative = found.largest == 0 ? 0 : found.largest / scale;
    return found.unknown || std::isnan(relative) ? inf : relative;
}

}  // namespace tilescope
