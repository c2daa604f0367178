#pragma once

#include <cstdint>
#include <span>

#include "tests/oracle/definition_backward.h"
#include "tests/oracle/definition_options.h"

namespace tilescope::test {

/// The options of definition_options.h that decide what the stages of a backward pass hold, in the order of
/// all_options(), and then those that a backward pass has beside.
std::span<const Option* const> backward_options();

/// A small random call with the options, which are in the order of backward_options(); o and lse are exact.
BackwardCall backward_call_with(std::span<const Option* const> options, std::uint64_t seed);

}  // namespace tilescope::test
