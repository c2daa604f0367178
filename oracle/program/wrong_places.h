#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oracle/program/conditions.h"
#include "oracle/program/judge_program.h"
#include "oracle/program/searched_call.h"

namespace tilescope {

/// A condition of the indices of the wrong stage, which most of these places tell; its node is added to the program that is searched.
std::optional<FoundCondition> condition_of_places(SearchedCall& searched,
                                                  const std::vector<LabelledIndices>& places);

/// Where the wrong stage holds no number, if that is only a part of what is wrong.
std::optional<ProgramMistake> without_number(SearchedCall& searched);

/// Where it is wrong, and right everywhere else; empty: nothing shorter than a list tells it.
std::string where_wrong(SearchedCall& searched);

}  // namespace tilescope
