#pragma once

#include <string>
#include <vector>

#include "dump/schema/program.h"

namespace tilescope {

/// A formula of a program in which one thing stands otherwise.
struct ProgramRewrite {
    int value = -1;   ///< node: the formula with it
    double bits = 0;  ///< what it takes to say what and where
    std::string
        slot;  ///< what it is that stands otherwise: "index", "factor", "term", "function", "range", ...
};

/// All formulas that differ from `value`, that of stage `stage`, in one place. Their nodes are added to the program, whose
/// formulas stay as they are.
std::vector<ProgramRewrite> rewrites_of(Program& program, int stage);

/// `value where condition else otherwise`.
int chosen_where(Program& program, int value, int condition, int otherwise);

}  // namespace tilescope
