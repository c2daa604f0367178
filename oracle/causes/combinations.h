#pragma once

#include <cstddef>
#include <vector>

#include "oracle/causes/rewrites.h"

namespace tilescope {

/// A variable that may be the sum of others than it should be, each with a factor that is solved for.
struct SumForm {
    const char* parameter;  ///< what the report says of it
    Variable variable;      ///< of the stage's result, or one that slots have
    std::vector<Expr> terms;
    std::vector<double> usual;  ///< the factors of a healthy kernel
    bool is_exponent = false;   ///< it is the exponential of the sum
};

/// The fewer terms the better, three at most.
std::vector<Candidate> combinations(const Evidence& evidence, const SumForm& form);

}  // namespace tilescope
