#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dump/schema.h"
#include "dump/schema/program.h"

namespace tilescope {

/// A formula in place of the declared one: nodes of the program.
struct OtherFormula {
    std::string_view stage;  ///< whose formula it is
    int declared = -1;
    int becomes = -1;
    int condition = -1;     ///< of the elements that have it; -1: all
    bool is_start = false;  ///< both are what the state is before the first block
};

/// The cause of the table that a formula is an instance of; empty: none.
std::string_view name_of_formula(const Program& program, const Problem& problem, double p_scale,
                                 const OtherFormula& formula);

/// Whether kernels are known to compute it: it has a name, and no number that could be any.
bool is_known_formula(const Program& program, const Problem& problem, double p_scale,
                      const OtherFormula& formula);

/// Whether it lacks a guard of values, such as `where s > -inf`, and nothing else.
bool lacks_guard(const Program& program, int declared, int becomes);

/// Names that formulas and stores of them may have, each once or more.
std::vector<std::string_view> names_of_formulas();

/// What stands in place of what in it, around which both are the same: "l -> l[b, h, i / 4 * 4]". One mistake in two stages is told so.
std::vector<std::string> changed_parts(const Program& program, int declared, int becomes);

/// Whether something is read a whole block before or behind where it should be, or in another state: so it is where a barrier is missing.
bool takes_other_block(const Program& program, int declared, int becomes);

}  // namespace tilescope
