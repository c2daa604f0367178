#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oracle/program/judge_program.h"

namespace tilescope {

/// A formula of a program in which one thing stands otherwise.
struct ProgramRewrite {
    int stage = -1;                ///< whose formula it is
    int value = -1;                ///< node: the formula with it
    std::optional<Dtype> dtype{};  ///< that the result is stored in; nullopt: as it is declared
    double bits = 0;               ///< what it takes to say what and where
    /// What it is that stands otherwise: "index", "factor", "term", "function", "range", ...
    std::string slot{};
    bool is_known = false;  ///< kernels are known to do it
    bool is_start = false;  ///< `value` is what the state is before the first block
    /// Of stages behind it, in which the same number of the kernel stands otherwise.
    std::vector<StageFormula> also{};
};

/// All formulas that differ from `value`, that of stage `stage`, in one place. Their nodes are added to the program, whose
/// formulas stay as they are. Arrays that are `there` may stand in place of others. `call`: one of this program, in which indices
/// that are the same everywhere are one.
std::vector<ProgramRewrite> rewrites_of(Program& program, const ProgramCall& call, int stage,
                                        const std::vector<bool>& there);

/// The same of what a state is before its first block alone.
std::vector<ProgramRewrite> rewrites_of_start(Program& program, const ProgramCall& call, int stage,
                                              const std::vector<bool>& there);

/// An index that several of these stages, in their order, take into inputs is one number of the kernel, as the head that K and V are
/// loaded from: formulas with another one.
std::vector<ProgramRewrite> rewrites_of_loads(Program& program, const ProgramCall& call,
                                              const std::vector<int>& stages);

/// Elements of an array that stand beside each other, `x[2 * i]` and `x[2 * i + 1]`, in the place of those of its parts, `x[i]` and
/// `x[i + n / 2]`, or the other way round.
std::vector<ProgramRewrite> rewrites_of_pairs(Program& program, const ProgramCall& call, int stage);

/// Of a state that is updated row by row, the row of another index, which holds the new state where it comes before.
std::vector<ProgramRewrite> rewrites_of_updated_rows(Program& program, int stage);

/// A condition that several of these stages have is one number of the kernel, as whether a split begins: formulas in which it always
/// holds, or never.
std::vector<ProgramRewrite> rewrites_of_guards(Program& program, const std::vector<int>& stages);

}  // namespace tilescope
