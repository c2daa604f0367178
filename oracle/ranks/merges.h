#pragma once

#include <string>

#include "oracle/judge/tally.h"
#include "oracle/ranks/run_of_ranks.h"

namespace tilescope {

/// How what a rank merged compares with what it was merged from.
struct MergeReport {
    bool is_judged = false;  ///< it was recorded, and so was what it is merged from
    StageTally o;
    StageTally lse;
    std::string cause;  ///< of one that differs; empty: none explains it
    std::string says;
    std::string look_at;
};

/// What a rank has after a step, against the merge of what it had before and the step's o and lse.
/// Max error: that of merge_rows(). Errors: Error for a damaged file.
MergeReport judge_merge(const RunOfRanks& run, const Recording& step);

/// o and lse that a rank received, against those of the launch of another one over the same keys, or what that one had
/// merged over them. Where no rank has, it is not judged. Max error and errors: the same.
MergeReport judge_received(const RunOfRanks& run, const Recording& received);

/// A rank's outputs against what it had merged after its last steps, in dtype_o, or against the merge of its steps' o and
/// lse where that was not recorded. Max error and errors: the same.
MergeReport judge_final(const RunOfRanks& run, const Recording& final);

}  // namespace tilescope
