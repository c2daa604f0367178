#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "oracle/program/formulas.h"

namespace tilescope {

/// A part of a formula, for some indices: what it is by the program, and what it must have been for the formula to be what
/// the kernel stored. Where that cannot be told the error is infinite.
struct NeededValues {
    int stage = -1;  ///< whose formula it is a part of
    int node = -1;
    AxisRanges ranges{};  ///< of the axes that are known at the node
    std::int64_t block = 0;
    Numbers right{};  ///< along the axes of `needed`
    Numbers needed{};
};

/// A node in the terms of a sum.
struct SumFactor {
    int node = -1;
    Numbers value{};   ///< along the axes of the terms
    Numbers uncast{};  ///< the same before its cast, where it is one
};

/// The terms of a sum, a maximum or a minimum, for some of its results, and what these must have been.
struct NeededSums {
    int stage = -1;
    int node = -1;
    AxisRanges ranges{};
    std::vector<int> along{};
    Numbers terms{};  ///< along the axes of `needed`, and those of the sum behind these
    Numbers needed{};
    std::vector<SumFactor> factors{};  ///< of which each term is the product
};

struct NeededObserver {
    std::function<void(const NeededValues&)> values;
    std::function<void(const NeededSums&)> sums;
};

/// What the formulas of a part of the call are computed from.
struct FormulaInputs {
    const ProgramCall& call;
    const std::vector<const StoredStage*>& stages;
    SumModel model;
    /// Stages that nobody stored: their formulas are inverted as well.
    const std::vector<int>& open;
};

/// Shows each part of a stage's formula, from the whole to its parts, as far as `needed`, what the stage must have been, tells it.
/// Operations are inverted one by one, with what they may be off by. A factor of a sum of products is solved for: the sums along
/// axes that it does not have are as many equations. A state to which each block adds is one sum.
/// Source: least squares by QR, as Golub and Van Loan, Matrix Computations, section 5.3, have it.
void for_each_needed(const FormulaInputs& inputs, int stage, const AxisRanges& ranges, std::int64_t block,
                     const Numbers& needed, const NeededObserver& observer);

}  // namespace tilescope
