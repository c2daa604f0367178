#pragma once

#include <optional>

#include "dump/schema/program.h"
#include "oracle/program/judge_program.h"

namespace tilescope {

/// The mistake that was found in a call of a kernel, in the program of another call of it: what the formulas of both have in common is
/// that of the other call, and arrays, axes and sizes are told by their names. nullopt: one of these is not there.
struct CarriedMistake {
    Program program;                  ///< with the mistake, wherever it is made
    int stage = -1;                   ///< that it was seen in
    int condition = -1;               ///< node: of the elements of that stage that have it; -1: all
    std::optional<StoredAt> store{};  ///< where it is stored; nullopt: at its own place
};
std::optional<CarriedMistake> carried(const Program& found_in, const ProgramMistake& mistake,
                                      const Program& declared);

}  // namespace tilescope
