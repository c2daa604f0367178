#pragma once

#include <optional>
#include <span>
#include <vector>

#include "dump/schema/program.h"

namespace tilescope {

/// Those of the stage's own indices.
std::vector<int> axes_of(const Program& program, int stage);

/// A formula that stands in the place of another one where a condition of the indices holds.
struct FormulaWhere {
    int value = -1;
    int condition = -1;
};

/// `becomes` says in its parts where they are as `declared`, as in `sum(k: (a * 2 where n >= 8 else a) * w)`: the same formula
/// without that, and the condition, which is one of these axes. nullopt: it says no such thing, or not of all parts in which it differs.
std::optional<FormulaWhere> taken_out(Program& program, int declared, int becomes, std::span<const int> axes);

/// `becomes`, in which the indices that its own conditions compare with numbers are those within the block: `j % block_n < 16` for
/// `j < 16`. The same node where it has no such condition that `declared` has not.
int within_blocks(Program& program, int declared, int becomes);

/// What `becomes` is where a condition of the place holds, and `declared` elsewhere: said of the part in which they differ, but of a
/// sum as a whole.
int where_they_differ(Program& program, int declared, int becomes, int condition);

}  // namespace tilescope
