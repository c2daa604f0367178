#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/recording.h"
#include "oracle/causes/attempts.h"
#include "oracle/judge/diagnosis.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// Units of work that a search may do: about 2 s on two cores of 2026.
inline constexpr std::int64_t usual_effort = 6'000'000'000;

struct CauseOptions {
    CompareOptions compare;                 ///< that the report was made with
    int threads = 0;                        ///< 0: as many as there are cores
    int most = 5;                           ///< causes kept
    std::vector<std::string> without = {};  ///< causes of the table that are not searched for
    std::int64_t effort = usual_effort;     ///< units of work; Effort::unbounded: all that there is to try
    /// Called often, from any thread; what it throws ends the search.
    std::function<void()> check = {};
    /// Told each part of the search as it begins, from any thread. What it throws is a failure of that part.
    std::function<void(std::string_view part)> begins = {};
};

/// Why the report's first wrong stage diverges: replays it with one mistake at a time, from the dumped stages
/// before it, on tiles of several heads and query blocks. Nothing is searched in
/// comparisons of two recordings and in reports of a match. oracle/CAUSES.md has the table,
/// oracle/DIAGNOSIS.md the rules.
/// Diagnosis::end has what failed, and whether the search was cut off. Errors: what `check` throws.
Diagnosis find_causes(const Recording& recording, const Report& report, const CauseOptions& options = {});

/// The same with attempts that go on elsewhere, into `diagnosis`. Errors: SearchEnded.
void find_causes(const Recording& recording, const Report& report, const CauseOptions& options,
                 Attempts& attempts, Diagnosis& diagnosis);

}  // namespace tilescope
