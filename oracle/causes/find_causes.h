#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "oracle/judge/diagnosis.h"
#include "oracle/judge/report.h"

namespace tilescope {

struct CauseOptions {
    CompareOptions compare;                 ///< that the report was made with
    int threads = 0;                        ///< 0: as many as there are cores
    int most = 5;                           ///< causes kept
    std::vector<std::string> without = {};  ///< causes of the table that are not searched for
    /// Called often, from any thread; what it throws ends the search.
    std::function<void()> check = {};
};

/// Why the report's first wrong stage diverges: replays it with one mistake at a time, from the dumped stages
/// before it, on tiles of several heads and query blocks. Nothing is searched in
/// comparisons of two recordings and in reports of a match. oracle/CAUSES.md has the table and the rules.
/// Errors: Error for a damaged file.
Diagnosis find_causes(const Recording& recording, const Report& report, const CauseOptions& options = {});

}  // namespace tilescope
