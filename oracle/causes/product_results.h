#pragma once

#include <optional>

#include "oracle/causes/evidence.h"

namespace tilescope {

/// Numbers that elements of a tile have in one place of a formula. NaN where they are not known.
struct SlotNumbers {
    Matrix right;  ///< rows x columns, or rows x 1 of what a whole row takes
    Matrix taken;  ///< what each element must have had there for what was dumped
    Matrix error;  ///< by how much that may be off

    bool is_known(Eigen::Index row, Eigen::Index col) const;
};

/// sm_scale q k, of s: the score as it is before its cap and what is added to it. Not of those near the cap.
SlotNumbers scores_before_cap(const Observation& seen);

/// The sums of products that the elements of a tile of s, acc or dp are, as the kernel computed them: in natural units
/// without what is added to them.
SlotNumbers product_results(const Observation& seen);

}  // namespace tilescope
