#include "oracle/replay/drift.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilescope {

namespace {

double scale_of(Stage stage, const RunningState& exact, Eigen::Index row) {
    if (stage == Stage::m) return 1;
    if (stage == Stage::l) return sum_of_row(exact.l.value, row);
    const auto magnitude = exact.acc.value.row(row).array().abs();
    return magnitude.isFinite().select(magnitude, 0).maxCoeff();
}

}  // namespace

double drift_of_row(const Units& units, Stage stage, const MatrixF& got, const DumpFactor& factor,
                    const RunningState& exact, Eigen::Index row) {
    const Matrix& value = (stage == Stage::m ? exact.m : stage == Stage::l ? exact.l : exact.acc).value;
    const bool over_l = stage == Stage::acc && units.acc_normalised && sum_of_row(exact.l.value, row) != 0;
    const double by = over_l ? 1 / sum_of_row(exact.l.value, row) : 1;
    const double scale = scale_of(stage, exact, row) * by;
    double largest = 0;
    bool any = false;
    for (Eigen::Index col = 0; col < value.cols(); ++col) {
        if (is_unwritten(got(row, col)) || !std::isfinite(value(row, col))) continue;
        any = true;
        const double difference =
            std::abs(double(got(row, col)) / factor.at(row, col) - value(row, col) * by);
        const double relative = difference == 0 ? 0 : difference / scale;
        largest =
            std::isnan(relative) ? std::numeric_limits<double>::infinity() : std::max(largest, relative);
    }
    return any ? largest : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tilescope
