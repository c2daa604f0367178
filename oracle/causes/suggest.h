#pragma once

#include <functional>
#include <optional>

#include "oracle/causes/find_causes.h"
#include "oracle/judge.h"

namespace tilescope {

/// What the recording would have to declare besides for the judge to get further: to a match, or to a later
/// first wrong stage. A wrong declaration is more likely than a wrong kernel, so it is tried before faults are.
/// Where a stage is still wrong, its causes are searched in the recording with the declarations: one hides the
/// other. A stage that does what is not declared counts as wrong.
/// nullopt where the report is none of a single diverging recording, or nothing gets it further.
/// From `threads` threads, 0 for one a core.
/// Errors: Error for a damaged file; what `check` throws.
std::optional<Suggestion> suggest_declarations(const Recording& recording, const Report& report, int threads,
                                               const std::function<void()>& check = {});

/// Both: find_causes(), and what is to be declared. Errors: those of both.
Diagnosis causes_and_declarations(const Recording& recording, const Report& report,
                                  const CauseOptions& options = {});

}  // namespace tilescope
