#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "oracle/causes/find_causes.h"
#include "oracle/judge.h"
#include "oracle/ranks/rank_report.h"
#include "oracle/ranks/run_of_ranks.h"

namespace tilescope {

struct RankOptions {
    JudgeOptions judge;
    CauseOptions causes;
    bool search_causes = true;
    /// Called after each part, with what is known so far.
    std::function<void(const RankReport& so_far, std::size_t part)> judged;
};

/// Judges all recordings of a run as one call: operands against the rank that owns them, tiles and outputs of each step from
/// its own operands, what is merged from what it is merged from, outputs at the end from all keys.
/// Errors: Error where nothing of it can be judged, and for a damaged file.
RankReport judge_ranks(const RunOfRanks& run, const std::string& name, const RankOptions& options);

}  // namespace tilescope
