#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

struct FormulaChange;

/// Operands that stand in what the formula has otherwise, as inputs: where a load was not recorded it may be that.
std::vector<Stage> loads_in(const FormulaChange& change);

/// Of a formula that was found beside another one and changes what that one has otherwise, so that both are one mistake: the name of
/// that. nullopt: they are two.
std::optional<std::string_view> name_of_both(const FormulaChange& change, const Evidence& evidence);

/// Whether it hides other scores than the declared formula, or has another number in their place.
bool hides_otherwise(const FormulaChange& change);

/// Whether it is made in a stage that nobody records: others may take that which do not take the one that it was found in.
bool is_made_beside(const FormulaChange& change);

/// Whether it is in some places alone.
bool has_condition(const FormulaChange& change);

/// Whether it leaves what all other wrong stages stored as well.
bool explains_other_stages(const FormulaChange& change);

/// The cause whose candidates are what the search for formulas finds in the recording, said as a program: rewrites of the stage's
/// formula, or of those before it that were not dumped. It is asked for what was dumped, beside no other mistake.
std::vector<Cause> formula_causes();

}  // namespace tilescope
