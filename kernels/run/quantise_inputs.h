#pragma once

#include <array>

#include "kernels/run/inputs.h"
#include "kernels/run/quantise.h"

namespace tilescope {

/// An operand of attention as the quantiser sees it.
struct QuantisedOperand {
    const char* name;
    std::vector<std::byte> InputArrays::*array;
    Descale SideInputs::*descale;
    std::int64_t Problem::*heads;
    std::int64_t Problem::*seqlen;

    /// A scale for each head of each batch entry.
    ScaleGroups groups(const Problem& problem) const;
};

/// q, k and v.
const std::array<QuantisedOperand, 3>& quantised_operands();

/// The call's operands in e4m3, of `halves` in float16, which it keeps.
RunInputs quantise_inputs(const Problem& problem, InputArrays halves);

/// Of each operand, in the order of quantised_operands().
std::array<QuantisationError, 3> quantisation_errors(const Problem& problem, const RunInputs& inputs);

}  // namespace tilescope
