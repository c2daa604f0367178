#pragma once

#include <optional>

#include "oracle/causes/find_causes.h"
#include "oracle/judge.h"

namespace tilescope {

/// What the recording would have to declare besides for the judge to get further: to a match, or to a later
/// first wrong stage. A wrong declaration is more likely than a wrong kernel, so it is tried before faults are.
/// Where a stage is still wrong, its causes are searched in the recording with the declarations: one hides the
/// other. A stage that does what is not declared counts as wrong.
/// In Diagnosis::suggestion, which is empty where the report is none of a single diverging recording, or nothing gets it
/// further. Diagnosis::end has what failed, and whether the search was cut off. Errors: what `check` throws.
Diagnosis declarations_of(const Recording& recording, const Report& report, const CauseOptions& options = {});

/// The suggestion of declarations_of(), from `threads` threads, 0 for one a core.
inline std::optional<Suggestion> suggest_declarations(const Recording& recording, const Report& report,
                                                      int threads) {
    CauseOptions options;
    options.threads = threads;
    return declarations_of(recording, report, options).suggestion;
}

/// Both: find_causes(), and what is to be declared. What fails in either of them is told in Diagnosis::end, so that it costs
/// no verdict. Errors: what `check` throws.
Diagnosis causes_and_declarations(const Recording& recording, const Report& report,
                                  const CauseOptions& options = {});

}  // namespace tilescope
