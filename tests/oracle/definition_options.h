#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/oracle/definition_attention.h"
#include "tests/oracle/draws.h"

namespace tilescope::test {

/// Something that a call or its dump may have, and what it needs beside.
struct Option {
    std::string_view name;
    std::string_view sets;  ///< two options that set the same contradict each other
    void (*apply)(AttentionCall& call, Random& random);
};

/// Shapes come first: what an option draws has the sizes of the call.
std::span<const Option> all_options();

/// Those of them that change what the stages hold; the others change their bounds alone.
std::span<const Option> value_options();

const Option& option_named(std::string_view name);

/// Whether no two of them set the same thing.
bool can_stand_together(std::span<const Option* const> options);

/// A small random call with the options, which are in the order of all_options().
AttentionCall call_with(std::span<const Option* const> options, std::uint64_t seed);

/// For messages: the options' names and the seed.
std::string describe(std::span<const Option* const> options, std::uint64_t seed);

/// A bias that has the problem's sizes where `batch`, `heads`, `rows` and `keys` say so, and 1 elsewhere.
Bias draw_bias(const Problem& problem, bool batch, bool heads, bool rows, bool keys, Random& random);

}  // namespace tilescope::test
