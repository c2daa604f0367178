#pragma once

#include <cstdint>
#include <vector>

#include "oracle/causes/evidence.h"

namespace tilescope {

/// The factor from the kernel's own sum of products to the score: sm_scale, and descales applied after the
/// sum.
double unit_of(const HeadCall& call, std::int64_t row, std::int64_t key);

/// A wrong score as it would be without cap and bias, beside the one expected.
struct BareScore {
    double got = 0;
    double expected = 0;
    double error = 0;
    double unit = 1;      ///< of the sum of products
    bool is_bare = true;  ///< no cap and no bias had to be taken off
};

/// Of every wrong element of s; none where s is not looked at itself, and without those near the cap.
std::vector<BareScore> bare_scores(const Evidence& evidence);

}  // namespace tilescope
