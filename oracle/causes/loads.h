#pragma once

#include <string_view>
#include <vector>

#include "oracle/causes/table.h"
#include "oracle/solve/array_index.h"

namespace tilescope {

// Operands that are loaded from another place of their array, and what such mistakes are called.

/// The name of a load with this index; operand_addresses_name where it has none of its own.
std::string_view name_of_load(const OtherIndex& other, Stage operand, const Problem& problem);

/// What the report says of it: nothing where the name says all.
std::vector<CauseParameter> told_of_load(const OtherIndex& other, Stage operand, const Problem& problem);

/// The index as data, "k" and "[batch][0][key][d]"; the address where its extents are others.
CauseParameter rewrite_of_load(const OtherIndex& other, Stage operand, const Problem& problem);

/// Other batch entries, heads, tiles and rows, and another layout: what is tried where no value tells the index.
std::vector<Candidate> common_loads(const Evidence& evidence);

}  // namespace tilescope
