#pragma once

#include "oracle/formula/head_call.h"
#include "oracle/formula/output.h"

namespace tilescope {

/// How far a row of a dumped m, l or acc is from that of exact arithmetic: the largest deviation in natural
/// units, of l relative to l, of acc relative to the row's largest element. Infinite where only the dump is
/// not finite; NaN where there is nothing to compare.
double drift_of_row(const Units& units, Stage stage, const MatrixF& got, const DumpFactor& factor,
                    const RunningState& exact, Eigen::Index row);

}  // namespace tilescope
