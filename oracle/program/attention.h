#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "oracle/program/call.h"

namespace tilescope {

/// Attention as a recording declares it, forward or backward, as the text of a program: its stages are those of the
/// recording, in its units. nullopt: something that the language has no words for, which `why` says.
struct AttentionProgram {
    std::optional<std::string> text;
    std::string why;
};
AttentionProgram attention_program(const Recording& recording);

/// The inputs of the call that a recording holds, in memory of its own.
struct AttentionInputs {
    std::map<std::string, ProgramInput> inputs;
    std::map<std::string, std::int64_t> sizes;
    std::vector<std::vector<float>> memory;
};
AttentionInputs attention_inputs(const Recording& recording);

}  // namespace tilescope
